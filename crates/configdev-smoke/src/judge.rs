//! From what was seen to one line for each part: a rule without I/O.

#[cfg(test)]
mod tests;

use problem::{Finding, Severity};

use crate::machine::{Ended, Run, UNVERIFIED};
use crate::options::{Expect, Options};
use crate::seen::Part;
use crate::surroundings::{POLICY_MARK, Surroundings};
use crate::verdict::LIMIT;

/// What was asked for, what the guest had, and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The command line.
    pub options: &'a Options,
    /// Disks and registry.
    pub around: &'a Surroundings,
    /// The guest.
    pub run: &'a Run,
}

/// How a part is, what was seen, and what to do; `None` where there is nothing to say.
type Said = Option<(Severity, String, &'static str)>;

/// A row's name, the exit code where it fails, and the rule; in the order of a boot.
type Row = (&'static str, u8, fn(&Case<'_>) -> Said);

const ROWS: [Row; 13] = [
    ("boot", 1, boot),
    ("vsock", 2, |case| {
        let remedy = "build VIRTIO_VSOCKETS into the kernel, or load vmw_vsock_virtio_transport \
                      before the agent starts";
        outcome(&case.run.seen.vsock, remedy)
    }),
    ("disks", 2, disks),
    ("run", 5, |case| {
        outcome(&case.run.seen.run, "mount a tmpfs at /run before the processor runs")
    }),
    ("processor", 3, processor),
    ("policy", 3, policy),
    ("files", 3, files),
    ("sockets", 4, |case| {
        let remedy = "start imagepuller hub before the agent (stock-agent, or init-example), and \
                      say agent.guest_components_procs=none (or attestation-agent) in --append \
                      and in kernel_params (docs/guest.md, \"Which set-up\"); for an agent with \
                      another socket say --socket";
        outcome(&case.run.seen.socket, remedy)
    }),
    ("clock", 5, clock),
    ("network", 2, |case| {
        let remedy = "build VIRTIO_NET into the kernel, or load virtio_net before the agent starts";
        outcome(&case.run.seen.network, remedy)
    }),
    ("pull", 6, pull),
    ("secret", 3, |case| {
        let shows = case.run.console.contains(case.around.secret.as_ref()?);
        let remedy = "find out which program of the image writes it";
        shows.then(|| failed("the password is on the console", remedy))?
    }),
    ("parameter", 3, |case| {
        let remedy = "say it in kernel_params where pods with initdata run without a TEE; all of \
                      them are refused there otherwise";
        let text = format!("{UNVERIFIED} was added, for initdata without a TEE");
        case.options.adds_unverified().then_some((Severity::Warning, text, remedy))
    }),
];

/// What a console says of a guest that did not get to its end, and what to do; the first that fits.
const SIGNS: [(&str, &str); 7] = [
    ("so there will be no agent", "the first program turned the machine off and said why"),
    (
        "Unable to mount root fs",
        "the kernel did not take the initrd: it needs BLK_DEV_INITRD and the initrd's compression \
         (RD_GZIP, RD_XZ, RD_ZSTD)",
    ),
    (
        "No working init found",
        "the initrd has no /init that the kernel can start; for another first program say \
         rdinit=PATH in --append",
    ),
    ("Attempted to kill init", "the first program ended; the lines before say why"),
    ("Out of memory", "give the guest more with --memory, as Kata's default_memory does"),
    ("Dependency failed for", "a unit that the agent requires failed; the lines before say which"),
    ("Kernel panic", "the lines before the panic say why; try --cpu max,-cx16"),
];

/// What to do about a pull that failed, by words of the puller's; the first that fits.
const PULLS: [(&str, &str); 7] = [
    ("not valid yet", CLOCK),
    ("not yet valid", CLOCK),
    ("expired", CLOCK),
    ("certificate", ROOTS),
    ("UnknownIssuer", ROOTS),
    ("overlay", "the kernel needs OVERLAY_FS, and TMPFS_XATTR for the store"),
    ("", "see what the puller says; docs/messages.md has its errors"),
];

const ROOTS: &str = "the document's ca-certs have to name the registry's CA";
const CLOCK: &str = "see the row clock: certificates are judged by the guest's";

/// How far a guest's clock may be off: the least that tokens and certificates allow for.
const CLOCK_SECS: u64 = 60;

const POLICY: &str = "/run/measured-cfg/policy.rego";
const DOCUMENT: &str = "/run/insecure-cfg/imagepuller.toml";

/// What is in the policy that the processor writes where it refuses.
const DENIES: &str = "nothing may run in this guest";

/// All rows that there is something to say of. Of a guest that was cut each failure is that.
#[must_use]
pub fn judge(case: &Case<'_>) -> Vec<(u8, Finding)> {
    let rows = ROWS.iter().filter_map(|(id, code, rule)| {
        let (severity, text, remedy) = rule(case)?;
        let code = if case.run.is_cut() { LIMIT } else { *code };
        let (place, remedy) = ((*id).to_owned(), remedy.to_owned());
        Some((code, Finding { severity, id, place, text, remedy }))
    });
    rows.collect()
}

fn boot(case: &Case<'_>) -> Said {
    let console = &case.run.console;
    let is_refused = case.options.expect == Expect::Refused
        && case.run.seen.clock_secs.is_none()
        && console.contains("initdata was refused");
    let how = match &case.run.ended {
        Ended::Done => return fine("the agent was started"),
        Ended::Failed(how, words) => {
            let text = format!("QEMU or the wrapper ended with {how}: {}", shown(words));
            return failed(text, "see what it says");
        }
        _ if is_refused => return fine("initdata was refused, and so there is no agent"),
        Ended::Timeout => format!("the agent was not done after {} s", case.options.timeout),
        Ended::Console => "more than 8 MiB on the console".to_owned(),
        Ended::Off => "the machine ended before the agent was done".to_owned(),
    };
    let mut lines = console.lines().rev().filter(|line| !line.trim().is_empty());
    let sign = SIGNS.iter().find_map(|(words, remedy)| {
        let line = lines.clone().find(|line| line.contains(words))?;
        failed(format!("{how}: {}", shown(line)), remedy)
    });
    sign.or_else(|| match lines.find(|line| !line.starts_with("@@ ")) {
        Some(last) => failed(
            format!("{how}; the last line is: {}", shown(last)),
            "see the end of the console; --timeout gives more time, --agent names the agent",
        ),
        None => failed(
            format!("{how}, and no word on the console"),
            "the kernel wrote nothing: it needs SERIAL_8250_CONSOLE, and to be one for x86-64; try \
             --cpu max,-cx16",
        ),
    })
}

fn disks(case: &Case<'_>) -> Said {
    let disks = case.run.seen.disks.as_ref()?;
    let wanted = [("(initdata)", &case.around.initdata), ("(imgpullr)", &case.around.document)];
    let is_there = |magic: &str| disks.iter().any(|disk| disk.ends_with(magic));
    let missing = wanted.iter().find(|(magic, disk)| disk.is_some() && !is_there(magic));
    let there = if disks.is_empty() { "none".to_owned() } else { disks.join(", ") };
    let Some((magic, _)) = missing else {
        return fine(there);
    };
    failed(
        format!("no disk with the magic {magic} among these: {there}"),
        "load virtio_pci, virtio_blk, virtio_scsi and sd_mod before the processor runs, or build \
         them into the kernel; /dev has to be a devtmpfs",
    )
}

fn has(case: &Case<'_>, path: &str) -> bool {
    case.run.seen.files.iter().flatten().any(|file| file == path)
}

/// The policy's text, and whether it is the processor's that denies everything, for this reason.
fn denied(case: &Case<'_>) -> Option<String> {
    let (_, text) = case.run.seen.policy.as_ref()?;
    let text = text.as_ref().filter(|text| text.contains(DENIES))?;
    let reason = text.lines().find_map(|line| line.strip_prefix("reason := "));
    Some(shown(reason.unwrap_or("it names no reason")))
}

fn processor(case: &Case<'_>) -> Said {
    case.run.seen.files.as_ref()?;
    if !has(case, "/run/measured-cfg") {
        return failed(
            "there is no /run/measured-cfg: it did not run before the agent",
            "let the agent start after it, as kata-agent.service.d/50-configdev.conf or \
             init-example does, and keep /run",
        );
    }
    let is_refused = has(case, "/run/insecure-cfg/initdata.refused");
    let refused = || format!("initdata refused: {}", denied(case).unwrap_or_default());
    match (case.options.expect, is_refused) {
        (Expect::Refused, true) => fine(refused()),
        (Expect::Refused, false) => failed(
            "initdata that nothing verifies was accepted",
            "the image must not set configdev.allow_unverified_initdata",
        ),
        (_, true) => {
            failed(refused(), "see the reason; check the document with kata-configdev inspect")
        }
        _ if case.around.initdata.is_some() => fine("initdata accepted without evidence"),
        _ => fine("no initdata"),
    }
}

fn policy(case: &Case<'_>) -> Said {
    let (path, text) = case.run.seen.policy.as_ref()?;
    let Some(text) = text else {
        return failed(
            format!("there is none at {path} when the agent starts"),
            "the processor leaves one at every end of its: start it before the agent",
        );
    };
    let is_refused = case.options.expect == Expect::Refused;
    if path != POLICY {
        let text = format!("the agent goes by {path}, whatever initdata says");
        let remedy = "set KATA_AGENT_POLICY_FILE=/run/measured-cfg/policy.rego for the agent, as \
                      kata-agent.service.d/60-policy.conf does";
        let severity = if is_refused { Severity::Error } else { Severity::Warning };
        return Some((severity, text, remedy));
    }
    let is_own = case.options.initdata.is_none();
    let others = "let nothing but the processor write below /run/measured-cfg";
    match denied(case) {
        Some(_) if is_refused => fine("deny-all, with the reason"),
        None if is_refused => {
            failed("initdata was refused, and the policy does not deny everything", others)
        }
        _ if is_own && text.contains(POLICY_MARK) => fine("that of initdata"),
        _ if is_own => failed("it is not the one that initdata brings", others),
        Some(reason) => failed(
            format!("deny-all: {reason}"),
            "an image whose pods may come without a policy needs \
             /etc/kata-opa/default-policy.rego; others need --initdata with a policy",
        ),
        None => {
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            fine(format!("{} at {POLICY}", shown(first)))
        }
    }
}

fn files(case: &Case<'_>) -> Said {
    let files = case.run.seen.files.as_ref()?;
    let is_wanted = case.options.expect != Expect::Refused && case.around.document.is_some();
    if !case.run.seen.reason.is_empty() && case.options.expect != Expect::Refused {
        return failed(
            format!("the document was refused: {}", shown(&case.run.seen.reason)),
            "see the reason; kata-configdev check says more about the document",
        );
    }
    if is_wanted && !has(case, DOCUMENT) {
        return failed(
            format!("there is no {DOCUMENT}"),
            "the disk came after the processor; say configdev.expect=imagepuller in --append and \
             in kernel_params",
        );
    }
    fine(files.join(", "))
}

fn clock(case: &Case<'_>) -> Said {
    let clock = case.run.seen.clock_secs?;
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

fn pull(case: &Case<'_>) -> Said {
    if case.around.image.is_none() {
        let text = "nothing was pulled".to_owned();
        return Some((
            Severity::Warning,
            text,
            "with a document of yours name an image with --pull",
        ));
    }
    let digest = match case.run.seen.pull.as_ref()? {
        Err(error) if case.options.expect == Expect::Refused && case.run.seen.mounted.is_none() => {
            return fine(format!("refused: {}", shown(error)));
        }
        Err(error) => {
            let remedy = PULLS.iter().find(|(words, _)| error.contains(words));
            return failed(shown(error), remedy.map_or("", |(_, remedy)| remedy));
        }
        Ok(digest) => digest,
    };
    let wanted = case.around.digest.as_ref();
    match &case.run.seen.mounted {
        _ if case.options.expect == Expect::Refused => failed(
            "an image was pulled in a guest whose initdata was refused",
            "the puller has to see /run/insecure-cfg/initdata.refused: let it use --config \
             /run/insecure-cfg/imagepuller.toml",
        ),
        _ if wanted.is_some_and(|wanted| wanted != digest) => failed(
            format!("the digest is {}", shown(digest)),
            "somebody else than imagepuller answered the agent",
        ),
        Some(kind) => fine(format!("{}, mounted as {kind}", shown(digest))),
        None => failed(
            "answered, but nothing is mounted where the agent looks",
            "the puller has to share the agent's mount namespace (docs/guest.md)",
        ),
    }
}

/// A part in which all is well where the agent got on.
fn outcome(part: &Part, remedy: &'static str) -> Said {
    match part.as_ref()? {
        Ok(text) => fine(shown(text)),
        Err(error) => failed(shown(error), remedy),
    }
}

fn fine(text: impl Into<String>) -> Said {
    Some((Severity::Ok, text.into(), ""))
}

fn failed(text: impl Into<String>, remedy: &'static str) -> Said {
    Some((Severity::Error, text.into(), remedy))
}

/// The beginning of a foreign text, on one line.
fn shown(text: &str) -> String {
    foreign_text::one_line(text.trim()).up_to(400).to_string()
}
