//! What plugins leave behind, ended before this process becomes another program.
//!
//! A plugin is killed with its process group. What it started in a group or session of its own
//! would go on, as a child of the machine's first process, or of QEMU's: this process becomes QEMU.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};

/// How long the end of killed processes is waited for: it takes longer only inside of the kernel,
/// where nothing helps.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How soon it is looked again.
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// Does `work`, and then ends every process that is left of it. Only for a process that has no
/// other children.
///
/// On kernels that refuse this, and without `/proc`, what flees goes on.
pub fn end_after<T>(work: impl FnOnce() -> T) -> T {
    let is_adopting = set_child_subreaper(Some(getpid())).is_ok();
    let done = work();
    if is_adopting {
        end_children();
        let _ = set_child_subreaper(None);
    }
    done
}

/// Kills and takes leave of every child. A child that is killed hands down its own.
fn end_children() {
    let deadline = Instant::now() + END_WITHIN;
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    loop {
        match waitid(WaitId::All, look) {
            // One has ended; there may be more.
            Ok(Some(_)) => {}
            Ok(None) if Instant::now() >= deadline => return,
            Ok(None) => {
                for child in children() {
                    // Its number is its own until it is waited for, which happens here only.
                    let _ = kill_process(child, Signal::KILL);
                }
                std::thread::sleep(AGAIN_AFTER);
            }
            Err(Errno::INTR) => {}
            // There is none.
            Err(_) => return,
        }
    }
}

/// The processes whose parent is this one.
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |number: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat"));
        // Behind the name, which may hold anything: the state, then the parent.
        let parent = stat.ok().and_then(|stat| {
            let (_, rest) = stat.rsplit_once(')')?;
            rest.split_whitespace().nth(1).map(str::to_owned)
        });
        parent.is_some_and(|parent| parent == own)
    };
    numbers.filter(is_child).filter_map(Pid::from_raw).collect()
}
