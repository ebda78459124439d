//! VMs that end by a fault of the emulation, which are started once more.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use anyhow::{Context, Result};

/// The signals that end a VM here: of the harness itself, of a person, of a service manager.
const OURS: [i32; 3] = [2, 9, 15];

/// A VM ended by a signal that nobody here sent, or its kernel by a fault of its own, as happens
/// under QEMU's emulation of several processors: no fault of what is tested.
#[derive(Debug)]
pub struct Crash(pub(crate) String);

/// What the guest's kernel says last where it failed itself, and not its init.
pub(crate) const KERNEL_FAULT: &str = "Kernel panic - not syncing: Fatal exception";

impl std::fmt::Display for Crash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the VM itself ended with {}", self.0)
    }
}

impl std::error::Error for Crash {}

/// Runs `attempt`, and runs it once more where its VM ended by a [`Crash`]. Both ends are printed.
///
/// # Errors
///
/// Those of the last attempt.
pub fn despite_crash<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let first = match attempt() {
        Err(error) if error.chain().any(|cause| cause.is::<Crash>()) => error,
        other => return other,
    };
    println!("first attempt: {first:#}");
    let second = attempt().with_context(|| format!("first attempt: {first:#}; second attempt"));
    println!("second attempt: {}", if second.is_ok() { "it ran to its end" } else { "it failed" });
    second
}

pub(crate) fn is_crash(status: ExitStatus) -> bool {
    status.signal().is_some_and(|signal| !OURS.contains(&signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU 7.2 once ended with SIGSEGV under a test that had nothing to do with it.
    #[test]
    fn only_a_crash_is_tried_again() {
        let crash = || Err(Crash("SIGSEGV".into()).into());
        for (ends, expected) in [
            (vec![Ok(1)], Ok(1)),
            (vec![crash(), Ok(2)], Ok(2)),
            (vec![Err(anyhow::anyhow!("refused"))], Err("refused")),
            (vec![crash(), crash()], Err("SIGSEGV")),
            (vec![crash(), Err(anyhow::anyhow!("refused"))], Err("refused")),
        ] {
            let mut ends = ends.into_iter();
            let end = despite_crash(|| ends.next().unwrap());
            match (end, expected) {
                (Ok(end), Ok(expected)) => assert_eq!(end, expected),
                (Err(error), Err(words)) => assert!(format!("{error:#}").contains(words)),
                (end, expected) => panic!("{end:?}, not {expected:?}"),
            }
            assert!(ends.next().is_none());
        }
    }

    #[test]
    fn signals_of_ours_are_no_crash() {
        for (signal, expected) in [(11, true), (6, true), (9, false), (15, false), (2, false)] {
            assert_eq!(is_crash(ExitStatus::from_raw(signal)), expected, "{signal}");
        }
        assert!(!is_crash(ExitStatus::from_raw(1 << 8)));
    }
}
