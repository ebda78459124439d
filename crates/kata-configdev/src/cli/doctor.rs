//! `kata-configdev doctor`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::finding::counted;
use crate::cli::CommandError;
use crate::doctor::sandbox::Joined;
use crate::doctor::{self, Report, Severity};
use crate::exit;
use crate::host_file::FileFault;
use crate::node_root::NodeRoot;
use crate::sandbox_id::SandboxId;

/// Looks for what is wrong on a node, and says what to do about it.
///
/// It looks at Kata's handlers with their drop-ins, and for each wrapper that they name at the
/// wrapper, its settings, QEMU, the document; at what containerd or CRI-O tells the handlers; and
/// at whether images are pulled in the guest. Nothing is changed. There is one line for each
/// finding: the file and line, whether it is a fault, a warning or a note, its id, what it is, and
/// the remedy.
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
    /// Also say what is known of the sandbox with this id: its document, and why the wrapper
    /// refused it in the last day.
    #[arg(long, value_name = "ID")]
    sandbox: Option<SandboxId>,
    /// Print one JSON object: findings, a list of id, severity, path, line and message; and
    /// sandbox, null or an object of id, bundle, document, life and refused.
    #[arg(long)]
    json: bool,
}

/// Examines the node and prints what was found.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    // Messages name the paths below it, which are told apart by its beginning.
    let host = &arguments.host_root;
    let host = std::path::absolute(host).map_err(|error| FileFault::from(error).at(host))?;
    let node = NodeRoot::open(Some(&host))?;
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
    Ok(())
}
