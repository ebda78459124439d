//! What the serving process may still do once it talks to a VMM.
//!
//! A VMM that a guest has taken over must gain nothing here: this process needs its descriptors,
//! memory and clocks, and nothing else of the system. Two walls that do not depend on each other,
//! both for good:
//!
//! 1. [`drop_rights`]: no capability, no core dump, and Landlock without any grant, which also
//!    covers what a file system or network call on a path of its own would reach. Only for the
//!    calling thread and those it starts.
//! 2. [`filter_calls`]: a list of the system calls that serving takes, for all threads.

use process_sandbox::calls::{Argument, Calls};
use process_sandbox::files::{Enforced, confine};
use process_sandbox::{Error, capabilities};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::CapabilitySet;

/// The calls that serving takes, beyond those of any program.
const CALLS: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// Takes rights away from the calling thread and from all that it starts.
///
/// # Errors
///
/// Where the kernel refuses a step. A kernel without Landlock is no error, but said in the answer.
pub(crate) fn drop_rights() -> Result<Enforced, Error> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| Error { step: "forbid core dumps", reason: errno.to_string() })?;
    capabilities::keep_only(CapabilitySet::empty())?;
    confine(&[])
}

/// Forbids all threads of the process every system call that serving does not take.
///
/// # Errors
///
/// Where the kernel has no seccomp, or a thread has a filter of its own.
pub(crate) fn filter_calls() -> Result<(), Error> {
    let duplicates =
        [Argument::Equal(libc::F_DUPFD_CLOEXEC as u64), Argument::Equal(libc::F_GETFD as u64)];
    Calls::base()?.and(CALLS).only_with(libc::SYS_fcntl, 1, &duplicates)?.enforce_with_threads()
}
