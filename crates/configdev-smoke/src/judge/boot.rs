//! Kernel, first programs, drivers.

use super::{Row, View};
use crate::exit::Kind;
use crate::machine::Ended;
use crate::options::Expect;
use crate::seen::Seen;

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

impl View<'_> {
    pub(super) fn boot(&self) -> Vec<Row> {
        let row = Row::new("boot", Kind::Boot);
        let agent = self.run.seen.iter().find_map(|(at, seen)| match seen {
            Seen::Agent { pid, kernel, .. } => Some((*at, *pid, kernel.clone())),
            _ => None,
        });
        let Some((at, pid, kernel)) = agent else {
            return vec![self.no_agent(row)];
        };
        let first = self.run.first_word.unwrap_or_default().as_secs_f64();
        let text = format!(
            "agent started as process {pid}, {at:.1} s after the kernel {kernel}, whose first word \
             came after {first:.1} s"
        );
        let mut rows = vec![row.fine(text).secs(at), self.vsock()];
        if let Some(limit) = self.limit() {
            rows.push(limit);
        }
        rows.push(self.disks());
        rows.push(self.run_mount());
        rows
    }

    /// The guest was stopped before its agent was done.
    fn limit(&self) -> Option<Row> {
        let text = match self.run.ended {
            Ended::Timeout => format!("the agent was not done after {} s", self.case.timeout),
            Ended::Console => "the console said more than 8 MiB".to_owned(),
            Ended::Off => "the machine was turned off before the agent was done".to_owned(),
            Ended::Failed(ref how, _) => format!("QEMU ended with {how}"),
            Ended::Done => return None,
        };
        let remedy = "see the end of the console; --timeout gives more time";
        Some(Row::new("limit", Kind::Boot).failed(text, remedy))
    }

    fn no_agent(&self, row: Row) -> Row {
        let (console, run) = (&self.run.console, self.run);
        if let Ended::Failed(how, words) = &run.ended {
            let words = foreign_text::one_line(words.trim()).up_to(400);
            let text = format!("QEMU or the wrapper ended with {how}: {words}");
            return row.failed(text, "see what it says");
        }
        if self.case.expect == Expect::Refused && console.contains(REFUSED) {
            return row.fine("initdata was refused, and so there is no agent");
        }
        let how = match run.ended {
            Ended::Timeout => format!("no agent after {} s", self.case.timeout),
            Ended::Console => "no agent, and more than 8 MiB on the console".to_owned(),
            _ => format!("the machine ended after {:.1} s", run.elapsed.as_secs_f64()),
        };
        let silent = "the kernel wrote nothing: it needs SERIAL_8250_CONSOLE, and to be one for \
                      x86-64; try --cpu max,-cx16";
        let lines = || console.lines().rev();
        let sign = SIGNS.iter().find_map(|(words, remedy)| {
            let line = lines().find(|line| line.contains(words))?;
            Some((line, *remedy))
        });
        match (sign, lines().find(|line| !line.trim().is_empty())) {
            (_, None) => row.failed(format!("{how}, and no word on the console"), silent),
            (Some((line, remedy)), _) => row.failed(format!("{how}: {}", shown(line)), remedy),
            (None, Some(last)) => row.failed(
                format!("{how}; the last line is: {}", shown(last)),
                "nothing started the agent at --agent; see the console",
            ),
        }
    }

    fn vsock(&self) -> Row {
        let row = Row::new("vsock", Kind::Drivers);
        let vsock = self.find(|seen| match seen {
            Seen::Vsock { loaded, error } => Some((*loaded, error.clone())),
            _ => None,
        });
        let remedy = "build VIRTIO_VSOCKETS into the kernel, or load vmw_vsock_virtio_transport \
                      before the agent starts";
        match vsock {
            None => row.skipped("the agent did not get so far"),
            Some((_, Some(error))) => row.failed(shown(&error), remedy),
            Some((true, None)) => {
                row.warning("after the stand-in had loaded vmw_vsock_virtio_transport", remedy)
            }
            Some((false, None)) => row.fine("the agent listens"),
        }
    }

    fn disks(&self) -> Row {
        let row = Row::new("disks", Kind::Drivers);
        let (mut names, mut magics, mut writable) = (Vec::new(), Vec::new(), false);
        for seen in self.seen() {
            if let Seen::Disk { name, magic, read_only, .. } = seen {
                let magic = magic.as_deref();
                names.push(match magic {
                    Some(magic) => format!("{name} ({magic})"),
                    None => name.clone(),
                });
                magics.extend(magic);
                writable |= magic == Some("imgpullr") && !read_only;
            }
        }
        let wanted = [("initdata", self.case.has_initdata), ("imgpullr", self.case.has_document)];
        let missing: Vec<_> = wanted
            .iter()
            .filter(|(magic, wanted)| *wanted && !magics.contains(magic))
            .map(|(magic, _)| *magic)
            .collect();
        let there = match names.is_empty() {
            true => "no disk at all".to_owned(),
            false => names.join(", "),
        };
        if !missing.is_empty() {
            let text = format!("no disk with the magic {}: {there}", missing.join(" or "));
            return row.failed(
                text,
                "load virtio_pci, virtio_blk, virtio_scsi and sd_mod before the processor runs, or \
                 build them into the kernel; /dev has to be a devtmpfs",
            );
        }
        if writable {
            let remedy = "the kernel's driver ignores that the host attached it read-only";
            return row.warning(format!("the document's disk is writable: {there}"), remedy);
        }
        row.fine(there)
    }

    fn run_mount(&self) -> Row {
        let row = Row::new("run", Kind::Surroundings);
        let run = self.find(|seen| match seen {
            Seen::Run { kind, by_agent } => Some((kind.clone(), *by_agent)),
            _ => None,
        });
        let remedy = "mount a tmpfs at /run before the processor runs";
        match run.unwrap_or_default() {
            (_, true) => row.failed(
                "nothing was mounted at /run, so the agent mounted an empty tmpfs over what the \
                 processor left there",
                remedy,
            ),
            (Some(kind), _) if kind == "tmpfs" || kind == "ramfs" => {
                row.fine(format!("/run is a {kind}"))
            }
            (Some(kind), _) => row.failed(format!("/run is a {kind}, not in memory"), remedy),
            (None, _) => row.warning("nothing is mounted at /run", remedy),
        }
    }
}

/// A line of the console, safe to print.
fn shown(line: &str) -> String {
    foreign_text::one_line(line.trim()).up_to(300).to_string()
}
