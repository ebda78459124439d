//! The child of a program of ours that asks the plugins in its place, and ends what they leave.
//!
//! A plugin is killed with its process group. What it started in a group or session of its own
//! becomes a child of this process, which has no others, and is ended with them: nothing of it is
//! left to whoever becomes QEMU.

use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use credential_sources::kubelet::run::ask_for_parent;
use foreign_text::bounded::read_stream;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

use crate::exit;

/// The one argument of a program of ours that is such a child.
pub const ARGUMENT: &str = "--ask-credential-providers";

/// The longest list of questions. Free to change.
const MAX_REQUEST_BYTES: usize = 16 << 20;

/// How long the end of killed processes is waited for: it takes longer only inside of the kernel,
/// where nothing helps, and where something starts others faster than it is found.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How soon it is looked again.
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// Starts this program as such a child.
pub(super) fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(ARGUMENT);
    command
}

/// Answers the questions on standard input. On kernels that refuse to hand it orphans, and without
/// `/proc`, what fled from a plugin goes on.
#[must_use]
pub fn run() -> ExitCode {
    let _ = set_child_subreaper(Some(getpid()));
    let request = read_stream(std::io::stdin(), MAX_REQUEST_BYTES).ok();
    let answers = request.and_then(|request| ask_for_parent(&request));
    end_children(Instant::now() + END_WITHIN);
    match answers.map(|answers| std::io::stdout().write_all(&answers)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        _ => exit::INTERNAL.into(),
    }
}

/// Kills every child: one that is killed hands down its own children.
fn end_children(deadline: Instant) {
    while Instant::now() < deadline {
        match wait(WaitOptions::NOHANG) {
            Err(_) => return,
            Ok(Some(_)) => {}
            Ok(None) => {
                for child in children() {
                    // Its number is its own until it is waited for, which happens here only.
                    let _ = kill_process(child, Signal::KILL);
                }
                std::thread::sleep(AGAIN_AFTER);
            }
        }
    }
}

fn children() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_own = |number: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything: the state, then the parent.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().nth(1));
        rest.flatten() == Some(&getpid().to_string())
    };
    numbers.filter(is_own).filter_map(Pid::from_raw).collect()
}
