//! Kernel, first programs, drivers.

use super::{Case, Said, failed, fine, shown, skipped, warning};
use crate::machine::Ended;
use crate::options::Expect;

/// What a console says where there is no agent, and what to do; the first that fits.
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

/// Words of a processor or of a first program that refused initdata.
const REFUSED: &str = "initdata was refused";

pub fn boot(case: &Case<'_>) -> Said {
    let Some(agent) = &case.run.seen.agent else {
        return no_agent(case);
    };
    let (at, pid, kernel) = (case.run.seen.agent_secs, agent.pid, &agent.kernel);
    let first = case.run.first_word.unwrap_or_default().as_secs_f64();
    fine(format!(
        "agent started as process {pid}, {at:.1} s after the kernel {kernel}, whose first word \
         came after {first:.1} s"
    ))
}

/// The guest was stopped before its agent was done.
pub fn limit(case: &Case<'_>) -> Said {
    let text = match &case.run.ended {
        Ended::Timeout => format!("the agent was not done after {} s", case.options.timeout),
        Ended::Console => "the console said more than 8 MiB".to_owned(),
        Ended::Off => "the machine was turned off before the agent was done".to_owned(),
        Ended::Failed(how, _) => format!("QEMU ended with {how}"),
        Ended::Done => return None,
    };
    failed(text, "see the end of the console; --timeout gives more time")
}

fn no_agent(case: &Case<'_>) -> Said {
    let console = &case.run.console;
    let how = match &case.run.ended {
        Ended::Failed(how, words) => {
            let words = shown(words, 400);
            let text = format!("QEMU or the wrapper ended with {how}: {words}");
            return failed(text, "see what it says");
        }
        _ if case.options.expect == Expect::Refused && console.contains(REFUSED) => {
            return fine("initdata was refused, and so there is no agent");
        }
        Ended::Timeout => format!("no agent after {} s", case.options.timeout),
        Ended::Console => "no agent, and more than 8 MiB on the console".to_owned(),
        Ended::Done | Ended::Off => {
            format!("the machine ended after {:.1} s", case.run.elapsed.as_secs_f64())
        }
    };
    let mut lines = console.lines().rev().filter(|line| !line.trim().is_empty());
    let sign = SIGNS.iter().find_map(|(words, remedy)| {
        let line = lines.clone().find(|line| line.contains(words))?;
        failed(format!("{how}: {}", shown(line, 300)), remedy)
    });
    sign.or_else(|| match lines.next() {
        Some(last) => failed(
            format!("{how}; the last line is: {}", shown(last, 300)),
            "nothing started the agent at --agent; see the console",
        ),
        None => failed(
            format!("{how}, and no word on the console"),
            "the kernel wrote nothing: it needs SERIAL_8250_CONSOLE, and to be one for x86-64; try \
             --cpu max,-cx16",
        ),
    })
}

pub fn vsock(case: &Case<'_>) -> Said {
    let remedy = "build VIRTIO_VSOCKETS into the kernel, or load vmw_vsock_virtio_transport before \
                  the agent starts";
    match &case.run.seen.vsock {
        None => skipped(),
        Some(vsock) => match &vsock.error {
            Some(error) => failed(shown(error, 300), remedy),
            None if vsock.loaded => {
                warning("after the stand-in had loaded vmw_vsock_virtio_transport", remedy)
            }
            None => fine("the agent listens"),
        },
    }
}

pub fn disks(case: &Case<'_>) -> Said {
    let disks = &case.run.seen.disks;
    let names = disks.iter().map(|disk| match &disk.magic {
        Some(magic) => format!("{} ({magic})", disk.name),
        None => disk.name.clone(),
    });
    let there = match disks.is_empty() {
        true => "no disk at all".to_owned(),
        false => names.collect::<Vec<_>>().join(", "),
    };
    let of = |magic| disks.iter().filter(move |disk| disk.magic.as_deref() == Some(magic));
    let mut missing = vec![
        ("initdata", case.around.initdata.is_some()),
        ("imgpullr", case.around.document.is_some()),
    ];
    missing.retain(|(magic, wanted)| *wanted && of(magic).next().is_none());
    if !missing.is_empty() {
        let missing: Vec<_> = missing.iter().map(|(magic, _)| *magic).collect();
        return failed(
            format!("no disk with the magic {}: {there}", missing.join(" or ")),
            "load virtio_pci, virtio_blk, virtio_scsi and sd_mod before the processor runs, or \
             build them into the kernel; /dev has to be a devtmpfs",
        );
    }
    if of("imgpullr").any(|disk| !disk.read_only) {
        let remedy = "the kernel's driver ignores that the host attached it read-only";
        return warning(format!("the document's disk is writable: {there}"), remedy);
    }
    fine(there)
}

pub fn run_mount(case: &Case<'_>) -> Said {
    let remedy = "mount a tmpfs at /run before the processor runs";
    match case.run.seen.run.as_deref() {
        _ if case.run.seen.hides_results => failed(
            "nothing was mounted at /run, so the agent mounted an empty tmpfs over what the \
             processor left there",
            remedy,
        ),
        Some(kind @ ("tmpfs" | "ramfs")) => fine(format!("/run is a {kind}")),
        Some(kind) => failed(format!("/run is a {kind}, not in memory"), remedy),
        None => warning("nothing is mounted at /run", remedy),
    }
}
