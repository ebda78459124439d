//! Sockets, the clock, the network, the pull, memory.

use super::{Row, View};
use crate::exit::Kind;
use crate::options::Expect;
use crate::seen::Seen;

/// How far a guest's clock may be off: the least that tokens and certificates allow for.
const CLOCK_SECS: u64 = 60;

impl View<'_> {
    pub(super) fn service(&self) -> Vec<Row> {
        let ends = self.find(|seen| match seen {
            Seen::Ends { why } => Some(why.clone()),
            _ => None,
        });
        if let Some(why) = ends {
            let row = Row::new("agent", Kind::Sockets);
            let why = foreign_text::one_line(&why).up_to(300);
            return vec![
                row.failed(format!("it ends at its start: {why}"), "see the rows above"),
                self.clock(),
            ];
        }
        let rows = [self.sockets(), self.clock(), self.network(), self.pull()];
        rows.into_iter().chain(self.memory()).collect()
    }

    fn sockets(&self) -> Row {
        let row = Row::new("sockets", Kind::Sockets);
        let mut told = Vec::new();
        let mut agents = None;
        for seen in self.seen() {
            if let Seen::Socket { path, mode, error, late_secs } = seen {
                agents = agents.or(Some((path, mode, error, *late_secs)));
                told.push(format!("{path} {}", mode.as_deref().unwrap_or("not there")));
            }
        }
        let hub = self.find(|seen| match seen {
            Seen::Hub { is_there } => Some(*is_there),
            _ => None,
        });
        let parameter = "say agent.guest_components_procs=none (or attestation-agent) in \
                         --append and in kernel_params (docs/guest.md, \"Which set-up\")";
        match (hub, agents) {
            (Some(true), _) => row.failed(
                "the agent removes the puller's socket and starts the image's own hub",
                parameter,
            ),
            (Some(false), _) => row.failed(
                "the agent would start a hub, which the image does not have, and so connects to \
                 nobody: its first pull panics",
                parameter,
            ),
            (None, Some((path, _, Some(_), Some(secs)))) => row.failed(
                format!("{path} was not there when the agent started, but {secs:.1} s later"),
                "let the agent start after the socket is there: After=imagepuller-hub.service, or \
                 the loop in init-example",
            ),
            (None, Some((path, mode, Some(error), None))) => {
                let error = foreign_text::one_line(error).up_to(200);
                let mode = mode.as_deref().unwrap_or("none");
                row.failed(
                    format!("no connection to {path} (mode {mode}): {error}"),
                    "start imagepuller hub before the agent (stock-agent, or init-example); for an \
                     agent with another socket say --socket",
                )
            }
            (None, Some((path, Some(mode), None, _))) if mode != "0600" => row.failed(
                format!("{path} has the mode {mode}, so others can ask for images"),
                "let nothing but imagepuller make or change it",
            ),
            (None, Some(_)) => row.fine(told.join(", ")),
            (None, None) => row.skipped("the agent did not get so far"),
        }
    }

    pub(super) fn clock(&self) -> Row {
        let row = Row::new("clock", Kind::Surroundings);
        let clock = self.find(|seen| match seen {
            Seen::Agent { clock_secs, .. } => Some(*clock_secs),
            _ => None,
        });
        let (clock, (start, end)) = (clock.unwrap_or(0), self.case.clock_secs);
        let remedy = "build RTC_CLASS, RTC_HCTOSYS and RTC_DRV_CMOS into the kernel, and let no \
                      program of the image set the clock; certificates are judged by it";
        if clock + CLOCK_SECS < start {
            row.failed(format!("{} s slow", start - clock), remedy)
        } else if clock > end + CLOCK_SECS {
            row.failed(format!("{} s fast", clock - end), remedy)
        } else {
            row.fine("right")
        }
    }

    fn network(&self) -> Row {
        let row = Row::new("network", Kind::Drivers);
        let network = self.find(|seen| match seen {
            Seen::Network { interface, loaded, error } => {
                Some((interface.clone(), *loaded, error.clone()))
            }
            _ => None,
        });
        let driver = "build VIRTIO_NET into the kernel, or load virtio_net before the agent starts";
        match network {
            None => row.skipped("the agent did not get so far"),
            Some((interface, _, Some(error))) => {
                let name = interface.as_deref().unwrap_or("none");
                let error = foreign_text::one_line(&error).up_to(200);
                row.failed(format!("interface {name}: {error}"), driver)
            }
            Some((interface, loaded, None)) => {
                let name = interface.unwrap_or_default();
                match loaded {
                    true => row.warning(
                        format!("{name}, after the stand-in had loaded virtio_net"),
                        driver,
                    ),
                    false => row.fine(name),
                }
            }
        }
    }

    fn pull(&self) -> Row {
        let row = Row::new("pull", Kind::Pull);
        if !self.case.has_image {
            return row.skipped("no image: with a document of yours name one with --pull");
        }
        let pull = self.find(|seen| match seen {
            Seen::Pull { digest, error, secs, entries, mounted } => {
                Some((digest.clone(), error.clone(), *secs, *entries, mounted.clone()))
            }
            _ => None,
        });
        let Some((digest, error, secs, entries, mounted)) = pull else {
            return row.skipped("the agent did not get so far");
        };
        let row = row.secs(secs);
        if self.case.expect == Expect::Refused {
            return match (error, entries) {
                (Some(error), 0) => row.fine(format!("refused: {}", shown(&error))),
                _ => row.failed(
                    "an image was pulled in a guest whose initdata was refused",
                    "the puller has to see /run/insecure-cfg/initdata.refused: let it use \
                     --config /run/insecure-cfg/imagepuller.toml",
                ),
            };
        }
        match (error, &self.case.digest) {
            (Some(error), _) => row.failed(shown(&error), remedy(&error)),
            (None, Some(wanted)) if digest.as_ref() != Some(wanted) => row.failed(
                format!("the digest is {}", shown(&digest.unwrap_or_default())),
                "somebody else than imagepuller answered the agent",
            ),
            (None, _) if entries == 0 || mounted.is_none() => row.failed(
                "answered, but nothing is mounted where the agent looks",
                "the puller has to share the agent's mount namespace (docs/guest.md)",
            ),
            (None, _) => {
                let (digest, kind) = (digest.unwrap_or_default(), mounted.unwrap_or_default());
                row.fine(format!("{} in {secs:.1} s, mounted as {kind}", shown(&digest)))
            }
        }
    }

    fn memory(&self) -> Option<Row> {
        let row = Row::new("memory", Kind::Surroundings);
        self.find(|seen| match seen {
            Seen::Memory { total, available, peaks } => {
                let peaks = peaks.iter().map(|(name, kib)| {
                    let name = foreign_text::one_line(name).up_to(40);
                    format!(", {name} at most {} MiB", kib >> 10)
                });
                let text = format!("{} of {} MiB left", available >> 10, total >> 10);
                Some(peaks.fold(text, |text, peak| text + &peak))
            }
            _ => None,
        })
        .map(|text| row.fine(text))
    }
}

fn shown(text: &str) -> String {
    foreign_text::one_line(text).up_to(600).to_string()
}

/// What to do about a pull that failed, by words of the puller's.
fn remedy(error: &str) -> &'static str {
    let has = |word| error.contains(word);
    if has("not valid yet") || has("not yet valid") || has("expired") {
        "see the row clock: certificates are judged by the guest's"
    } else if has("certificate") || has("UnknownIssuer") {
        "the document's ca-certs have to name the registry's CA"
    } else if has("overlay") {
        "the kernel needs OVERLAY_FS, and TMPFS_XATTR for the store"
    } else if has("no connection") {
        "see the row sockets"
    } else {
        "see what the puller says; docs/messages.md has its errors"
    }
}
