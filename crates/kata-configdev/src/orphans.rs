//! What plugins leave behind, ended before this process becomes another program.
//!
//! A plugin is killed with its process group. What it started in a group or session of its own
//! would go on, as a child of the machine's first process, or of QEMU's: this process becomes QEMU.
//!
//! Children outlive `exec`, so a script that became this program may have left it some: helpers of
//! a site's own, started for QEMU. They live on, and so does what they started.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, child_subreaper, getpid, kill_process, set_child_subreaper,
    waitid,
};

use crate::settings::CredentialProviders;

/// How long the end of killed processes is waited for: it takes longer only inside of the kernel,
/// where nothing helps, and where something starts others faster than it is found.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How soon it is looked again.
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// Does `work`, which starts no process unless `providers` are wanted, and then ends every process
/// that is left of it. Whoever was there before is neither killed nor waited for.
///
/// Only for a process that starts no others at the same time. What a helper that was there before
/// starts meanwhile and abandons cannot be told from a plugin's, and is ended.
///
/// On kernels that refuse this, and without `/proc`, what flees goes on.
pub fn end_after<T>(providers: &CredentialProviders, work: impl FnOnce() -> T) -> T {
    if !providers.is_wanted() {
        return work();
    }
    let was_adopting = child_subreaper().is_ok_and(|set| set.is_some());
    let is_adopting = was_adopting || set_child_subreaper(Some(getpid())).is_ok();
    let before = match has_children() {
        true => descendants(&parents()),
        false => HashSet::new(),
    };
    let done = work();
    if is_adopting && has_children() {
        let new = || {
            let mut children = children(&parents());
            children.retain(|child| !before.contains(child));
            children
        };
        end_all(Instant::now() + END_WITHIN, new, |child| {
            // Its number is its own until it is waited for, which happens here only.
            let _ = kill_process(child, Signal::KILL);
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let _ = waitid(WaitId::Pid(child), look);
        });
    }
    if !was_adopting {
        let _ = set_child_subreaper(None);
    }
    done
}

/// Ends what `left` finds until it finds nothing: one that is killed hands down its own children.
/// `end` kills one, and takes leave of it where it has ended.
fn end_all(deadline: Instant, mut left: impl FnMut() -> Vec<Pid>, mut end: impl FnMut(Pid)) {
    while Instant::now() < deadline {
        let found = left();
        if found.is_empty() {
            return;
        }
        found.into_iter().for_each(&mut end);
        std::thread::sleep(AGAIN_AFTER);
    }
}

/// Whether this process has a child, which need not be looked for in all of `/proc` otherwise.
fn has_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, look).is_ok()
}

/// Every process that is seen, with its parent.
fn parents() -> Vec<(Pid, Pid)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pair = |number: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // Behind the name, which may hold anything: the state, then the parent.
        let (_, rest) = stat.rsplit_once(')')?;
        let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
        Some((Pid::from_raw(number)?, Pid::from_raw(parent)?))
    };
    numbers.filter_map(pair).collect()
}

fn children(parents: &[(Pid, Pid)]) -> Vec<Pid> {
    let own = getpid();
    let own = parents.iter().filter(|(_, parent)| *parent == own);
    own.map(|(child, _)| *child).collect()
}

/// The children and theirs: what a helper abandons becomes a child of this process.
fn descendants(parents: &[(Pid, Pid)]) -> HashSet<Pid> {
    let mut open = children(parents);
    let mut found = HashSet::new();
    while let Some(one) = open.pop() {
        if found.insert(one) {
            let own = parents.iter().filter(|(_, parent)| *parent == one);
            open.extend(own.map(|(child, _)| *child));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leftover that started another one and ended, again and again, kept the wrapper for ever:
    /// there was always one to take leave of, and the time was not looked at.
    #[test]
    fn what_never_ends_is_left_alone_after_a_while() {
        let mut rounds = 0;
        let left = || {
            rounds += 1;
            assert!(rounds < 100_000, "it goes on for ever");
            Pid::from_raw(rounds).into_iter().collect()
        };
        end_all(Instant::now() + 5 * AGAIN_AFTER, left, |_| ());
        assert!(rounds > 0);
    }
}
