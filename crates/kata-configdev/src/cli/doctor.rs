//! `kata-configdev doctor`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::finding::counted;
use crate::cli::CommandError;
use crate::doctor::sandbox::Joined;
use crate::doctor::{self, Node, Report, Severity};
use crate::exit;
use crate::sandbox_id::SandboxId;

/// Looks for what is wrong on a node, and says what to do about it.
///
/// It looks at Kata's handlers with their drop-ins, and for each wrapper that they name at the
/// wrapper, its settings, QEMU, the document and further disks; at what containerd or CRI-O tells
/// the handlers; and at whether images are pulled in the guest. Nothing is changed. There is one
/// line for each finding: the file and line, whether it is a fault, a warning or a note, its id,
/// what it is, and the remedy. All time-outs that can end a pull follow, with the place of each.
///
/// A fault keeps sandboxes from starting, or from what they should have: then the exit code is 65.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev doctor
  kata-configdev doctor --host-root /host
  kata-configdev doctor --sandbox $(crictl pods --name app -q --no-trunc)
  kata-configdev doctor --json | jq '.findings[] | select(.severity == \"fault\")'"
)]
pub struct Arguments {
    /// The directory that stands for the node's /, as where a debugging pod has it. Symbolic links
    /// are followed, but never out of it.
    #[arg(long, value_name = "DIR", default_value = "/")]
    host_root: PathBuf,
    /// The settings of every wrapper, by their path on the node [default: each wrapper's own].
    #[arg(long = "settings", value_name = "FILE")]
    settings_file: Option<PathBuf>,
    /// Also join what is known of the sandbox with this id: its document, and the last lines of
    /// the wrapper, of the shim and of the guest in the journal (journalctl).
    #[arg(long, value_name = "ID")]
    sandbox: Option<SandboxId>,
    /// Print one JSON object: findings, a list of id, severity, path, line and message; timeouts, a
    /// list of handler, who, key, seconds, ends, path, line and then; and sandbox, null or an
    /// object of id, bundle, document, life, refused, no_log, not_searched, wrapper, shim and
    /// guest.
    #[arg(long)]
    json: bool,
}

/// Examines the node and prints what was found.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let node = Node::open(&arguments.host_root)?;
    let report =
        doctor::examine(&node, arguments.settings_file.as_deref(), arguments.sandbox.as_ref());
    if arguments.json {
        super::print_json(out, &report)?;
    } else {
        print(&report, out)?;
    }
    Ok(match report.count(Severity::Fault) {
        0 => 0,
        _ => exit::DATA,
    })
}

fn print(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    print_timeouts(report, out)?;
    if let Some(sandbox) = &report.sandbox {
        print_sandbox(sandbox, out)?;
    }
    writeln!(
        out,
        "{}, {}, {}",
        counted(report.count(Severity::Fault), "fault", "faults"),
        counted(report.count(Severity::Warning), "warning", "warnings"),
        counted(report.count(Severity::Note), "note", "notes")
    )
}

/// The limits that hold everywhere, then those of each handler; in each the shortest first.
fn print_timeouts(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    let mut timeouts: Vec<_> = report.timeouts.iter().collect();
    timeouts.sort_by_key(|timeout| (timeout.handler.as_deref(), timeout.limit));
    let mut handler = None;
    for timeout in timeouts {
        let own = Some(timeout.handler.as_deref());
        if handler != own {
            handler = own;
            let whose = timeout.handler.as_deref().unwrap_or("every handler");
            writeln!(out, "time-outs of {whose}:")?;
        }
        writeln!(out, "{timeout}")?;
    }
    Ok(())
}

fn print_sandbox(sandbox: &Joined, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "sandbox {}:", sandbox.id)?;
    writeln!(out, "  document  {}", sandbox.document)?;
    writeln!(out, "  runs      {}", sandbox.life)?;
    if let Some(line) = &sandbox.refused {
        writeln!(out, "  refused   {line}")?;
    }
    match &sandbox.bundle {
        Some(bundle) => writeln!(
            out,
            "  bundle    {bundle} (kata-configdev explain --sandbox BUNDLE says which entry wins)"
        )?,
        None => writeln!(out, "  bundle    gone")?,
    }
    for what in &sandbox.not_searched {
        writeln!(out, "  log       not looked at: {what}")?;
    }
    if let Some(why) = &sandbox.no_log {
        return writeln!(out, "  log       none: {why}");
    }
    for (who, lines) in
        [("wrapper", &sandbox.wrapper), ("shim", &sandbox.shim), ("guest", &sandbox.guest)]
    {
        if lines.is_empty() {
            writeln!(out, "  {who:<9} said nothing of it")?;
        }
        for line in lines {
            writeln!(out, "  {who:<9} {line}")?;
        }
    }
    Ok(())
}
