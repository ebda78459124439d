//! Sockets, the clock, the network, the pull, memory.

use problem::Severity;

use super::{Case, Said, failed, fine, shown, skipped, warning};
use crate::options::Expect;

/// How far a guest's clock may be off: the least that tokens and certificates allow for.
const CLOCK_SECS: u64 = 60;

/// What to do about a pull that failed, by words of the puller's; the first that fits.
const PULLS: [(&[&str], &str); 4] = [
    (
        &["not valid yet", "not yet valid", "expired"],
        "see the row clock: certificates are judged by the guest's",
    ),
    (&["certificate", "UnknownIssuer"], "the document's ca-certs have to name the registry's CA"),
    (&["overlay"], "the kernel needs OVERLAY_FS, and TMPFS_XATTR for the store"),
    (&["no connection"], "see the row sockets"),
];

pub fn ends(case: &Case<'_>) -> Said {
    let why = shown(case.run.seen.ends.as_ref()?, 300);
    failed(format!("it ends at its start: {why}"), "see the rows above")
}

pub fn sockets(case: &Case<'_>) -> Said {
    let parameter = "say agent.guest_components_procs=none (or attestation-agent) in --append and \
                     in kernel_params (docs/guest.md, \"Which set-up\")";
    match case.run.seen.hub {
        Some(true) => {
            let text = "the agent removes the puller's socket and starts the image's own hub";
            return failed(text, parameter);
        }
        Some(false) => {
            return failed(
                "the agent would start a hub, which the image does not have, and so connects to \
                 nobody: its first pull panics",
                parameter,
            );
        }
        None => {}
    }
    let Some(socket) = case.run.seen.sockets.first() else {
        return skipped();
    };
    let path = &socket.path;
    match (&socket.mode, &socket.error, socket.late_secs) {
        (_, Some(_), Some(secs)) => failed(
            format!("{path} was not there when the agent started, but {secs:.1} s later"),
            "let the agent start after the socket is there: After=imagepuller-hub.service, or the \
             loop in init-example",
        ),
        (mode, Some(error), None) => {
            let (mode, error) = (mode.as_deref().unwrap_or("none"), shown(error, 200));
            failed(
                format!("no connection to {path} (mode {mode}): {error}"),
                "start imagepuller hub before the agent (stock-agent, or init-example); for an \
                 agent with another socket say --socket",
            )
        }
        (Some(mode), None, _) if mode != "0600" => failed(
            format!("{path} has the mode {mode}, so others can ask for images"),
            "let nothing but imagepuller make or change it",
        ),
        _ => {
            let told = case.run.seen.sockets.iter().map(|socket| {
                format!("{} {}", socket.path, socket.mode.as_deref().unwrap_or("not there"))
            });
            fine(told.collect::<Vec<_>>().join(", "))
        }
    }
}

pub fn clock(case: &Case<'_>) -> Said {
    let clock = case.run.seen.agent.as_ref().map_or(0, |agent| agent.clock_secs);
    let (start, end) = case.run.clock_secs;
    let text = if clock + CLOCK_SECS < start {
        format!("{} s slow", start - clock)
    } else if clock > end + CLOCK_SECS {
        format!("{} s fast", clock - end)
    } else {
        return fine("right");
    };
    failed(
        text,
        "build RTC_CLASS, RTC_HCTOSYS and RTC_DRV_CMOS into the kernel, and let no program of the \
         image set the clock; certificates are judged by it",
    )
}

pub fn network(case: &Case<'_>) -> Said {
    let driver = "build VIRTIO_NET into the kernel, or load virtio_net before the agent starts";
    let Some(network) = &case.run.seen.network else {
        return skipped();
    };
    let name = network.interface.as_deref().unwrap_or("none");
    match &network.error {
        Some(error) => failed(format!("interface {name}: {}", shown(error, 200)), driver),
        None if network.loaded => {
            warning(format!("{name}, after the stand-in had loaded virtio_net"), driver)
        }
        None => fine(name),
    }
}

pub fn pull(case: &Case<'_>) -> Said {
    if case.around.image.is_none() {
        let text = "no image: with a document of yours name one with --pull";
        return Some((Severity::Skipped, text.to_owned(), ""));
    }
    let Some(pull) = &case.run.seen.pull else {
        return skipped();
    };
    if case.options.expect == Expect::Refused {
        return match &pull.answer {
            Err(error) if pull.entries == 0 => fine(format!("refused: {}", shown(error, 600))),
            _ => failed(
                "an image was pulled in a guest whose initdata was refused",
                "the puller has to see /run/insecure-cfg/initdata.refused: let it use \
                 --config /run/insecure-cfg/imagepuller.toml",
            ),
        };
    }
    match (&pull.answer, &pull.mounted) {
        (Err(error), _) => {
            let mut rows = PULLS.iter();
            let row = rows.find(|(words, _)| words.iter().any(|word| error.contains(word)));
            let other = "see what the puller says; docs/messages.md has its errors";
            failed(shown(error, 600), row.map_or(other, |(_, remedy)| remedy))
        }
        (Ok(digest), _) if case.around.digest.as_ref().is_some_and(|wanted| wanted != digest) => {
            failed(
                format!("the digest is {}", shown(digest, 600)),
                "somebody else than imagepuller answered the agent",
            )
        }
        (Ok(digest), Some(kind)) if pull.entries > 0 => {
            fine(format!("{} in {:.1} s, mounted as {kind}", shown(digest, 600), pull.secs))
        }
        (Ok(_), _) => failed(
            "answered, but nothing is mounted where the agent looks",
            "the puller has to share the agent's mount namespace (docs/guest.md)",
        ),
    }
}

pub fn memory(case: &Case<'_>) -> Said {
    let memory = case.run.seen.memory.as_ref()?;
    let mut text = format!("{} of {} MiB left", memory.available >> 10, memory.total >> 10);
    for (name, kib) in &memory.peaks {
        text += &format!(", {} at most {} MiB", shown(name, 40), kib >> 10);
    }
    fine(text)
}
