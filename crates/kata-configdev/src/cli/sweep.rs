//! `kata-configdev sweep`.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use foreign_text::one_line;
use serde_json::{Value, json};

use super::NAME;
use super::detach::RunRoot;
use super::finding::counted;
use crate::cli::CommandError;
use crate::sandbox_id::SandboxId;
use crate::{exit, sweep};

/// Removes the images of sandboxes that no longer exist.
///
/// These are images of the transport "file", and Kata's own images of
/// initdata, which runtime-rs never removes. A sandbox of the wrapper is alive as long as its
/// hypervisor holds the lock beside the image. Every other counts as alive as long as containerd
/// has its bundle below /run, or any process has its id in an argument; so for these, in a
/// container, this needs the host's PID namespace and its /run. Directories of Kata below /run
/// count as life while they are young, and always where not every process of the machine can be
/// seen.
///
/// Old directories that Kata left of a dead sandbox, such as /run/vc/vm/ID, are named and stay:
/// they are Kata's. Remove them by hand.
///
/// An image that cannot be looked at or removed does not keep the rest; the exit code is 69 then.
///
/// Expired answers of credential providers, and refusals older than a day, which are kept below
/// /run, go too and are not counted.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev sweep --json
  kata-configdev sweep --run-root /run    where the settings are gone"
)]
pub struct Arguments {
    #[command(flatten)]
    run_root: RunRoot,
    /// Leave alone what is younger than this: its sandbox may be about to start. Sandboxes of the
    /// wrapper, whose hypervisor holds a lock from the first moment on, need no age.
    #[arg(long, value_name = "SECONDS", default_value_t = sweep::DEFAULT_MIN_AGE.as_secs())]
    min_age: u64,
    /// Print one JSON object: removed and kept, each a list of sandbox ids, failed, a list of
    /// sandbox_id and error, and remains, a list of sandbox_id and paths.
    #[arg(long)]
    json: bool,
}

/// Sweeps once.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let run_root = arguments.run_root.resolve()?;
    let swept = sweep::sweep(&run_root, Duration::from_secs(arguments.min_age))?;
    let mut err = std::io::stderr();
    for (sandbox, error) in &swept.failed {
        let line = format!("{NAME}: sandbox {sandbox}: failed to {error}");
        // Without a standard error the exit code tells.
        let _ = writeln!(err, "{}", one_line(&line));
    }
    let code = if swept.failed.is_empty() { 0 } else { exit::UNAVAILABLE };
    if arguments.json {
        let ids = |sandboxes: &[SandboxId]| -> Value {
            sandboxes.iter().map(SandboxId::as_str).collect()
        };
        let failed = swept.failed.iter().map(
            |(sandbox, error)| json!({"sandbox_id": sandbox.as_str(), "error": error.to_string()}),
        );
        let remains = swept
            .remains
            .iter()
            .map(|(sandbox, paths)| json!({"sandbox_id": sandbox.as_str(), "paths": paths}));
        let members = [
            ("removed", ids(&swept.removed)),
            ("kept", ids(&swept.kept)),
            ("failed", failed.collect()),
            ("remains", remains.collect()),
        ];
        super::print_object(out, members)?;
        return Ok(code);
    }
    for sandbox in &swept.removed {
        writeln!(out, "{sandbox}: removed")?;
    }
    for (sandbox, paths) in &swept.remains {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        writeln!(out, "{sandbox}: gone; Kata left {}", paths.join(", "))?;
    }
    writeln!(
        out,
        "{} removed, {} kept, {} failed",
        counted(swept.removed.len(), "image", "images"),
        swept.kept.len(),
        swept.failed.len()
    )?;
    Ok(code)
}
