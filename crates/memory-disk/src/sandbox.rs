//! The walls around the serving process.
//!
//! A VMM that a guest has taken over must gain nothing here: this process needs its descriptors, memory and clocks, and nothing
//! else of the system. Two walls that do not depend on each other, both for good:
//!
//! 1. [`drop_rights`]: no capability, no core dump, and Landlock without any rule, which also covers what a file system or
//!    network call on a path of its own would reach. Only for the calling thread and those it starts.
//! 2. [`filter_calls`]: a list of the system calls that serving takes, for all threads. Every other one fails with `EPERM`
//!    instead of ending the process: a C library that tries something optional shall not cost a guest its disk.

use std::collections::BTreeMap;

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

use crate::Error;
use crate::event::Landlock;

/// The newest Landlock whose rights are asked for; an older kernel enforces what it knows.
const LANDLOCK: ABI = ABI::V6;

/// Takes rights away from the calling thread and from all that it starts.
///
/// # Errors
///
/// Where the kernel refuses a step. A kernel without Landlock is no error, but said in the answer.
pub(crate) fn drop_rights() -> Result<Landlock, Error> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("forbid core dumps"))?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        },
    )
    .map_err(failed("drop capabilities"))?;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(failed("Landlock"))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Landlock::Full,
        RulesetStatus::PartiallyEnforced => Landlock::Partial,
        RulesetStatus::NotEnforced => Landlock::Absent,
    })
}

/// Forbids all threads of the process every system call that serving does not take.
///
/// # Errors
///
/// Where the kernel has no seccomp, or a thread has a filter of its own.
pub(crate) fn filter_calls() -> Result<(), Error> {
    // The arguments of clone3 lie in memory, out of a filter's sight. "No such call" makes the C library take clone.
    let no_clone3 = filter(
        [(libc::SYS_clone3, Vec::new())],
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
    )?;
    let list = filter(
        allowed()?,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
    )?;
    // The list last: it does not allow to install another filter.
    for program in [no_clone3, list] {
        apply_filter_all_threads(&program).map_err(failed("seccomp"))?;
    }
    Ok(())
}

fn filter(
    rules: impl IntoIterator<Item = (libc::c_long, Vec<SeccompRule>)>,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, Error> {
    let rules: BTreeMap<i64, Vec<SeccompRule>> = rules.into_iter().collect();
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(failed("seccomp on this architecture"))?;
    SeccompFilter::new(rules, otherwise, listed, architecture)
        .and_then(TryInto::try_into)
        .map_err(failed("compile the system call filter"))
}

/// The calls that serving takes. An empty list of rules: whatever the arguments.
fn allowed() -> Result<Vec<(libc::c_long, Vec<SeccompRule>)>, Error> {
    let mut list: Vec<_> = [
        // The VMM's socket, events and the log, all open before.
        libc::SYS_accept4,
        libc::SYS_recvmsg,
        libc::SYS_sendmsg,
        libc::SYS_shutdown,
        libc::SYS_getsockopt,
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_close,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_ppoll,
        // Memory; not executable, below.
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_brk,
        // Threads, their names and ends.
        libc::SYS_clone3,
        libc::SYS_futex,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_yield,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_sigaltstack,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
        // Time and chance.
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_getrandom,
    ]
    .map(|call| (call, Vec::new()))
    .into();
    #[cfg(target_arch = "x86_64")]
    list.extend([libc::SYS_epoll_wait, libc::SYS_poll].map(|call| (call, Vec::new())));

    let without = |argument, bits| masked(argument, bits, 0);
    let threads = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;
    list.extend([
        (libc::SYS_mmap, vec![without(2, libc::PROT_EXEC as u64)?]),
        (
            libc::SYS_mprotect,
            vec![without(2, libc::PROT_EXEC as u64)?],
        ),
        // Threads only, no process.
        (libc::SYS_clone, vec![masked(0, threads, threads)?]),
        // Signals to itself, as an abort sends: a call with which it could end others is no part of serving.
        (libc::SYS_tgkill, vec![own_process()?]),
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME as u64)?]),
        (
            libc::SYS_fcntl,
            vec![
                equal(1, libc::F_DUPFD_CLOEXEC as u64)?,
                equal(1, libc::F_GETFD as u64)?,
            ],
        ),
    ]);
    Ok(list)
}

fn equal(argument: u8, value: u64) -> Result<SeccompRule, Error> {
    rule(argument, SeccompCmpOp::Eq, value)
}

/// The first argument is this process. The kernel looks at its lower half only.
fn own_process() -> Result<SeccompRule, Error> {
    let own = u64::from(std::process::id());
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(failed("compile the system call filter"))
}

/// The argument's bits in `mask` are exactly those of `value`.
fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompRule, Error> {
    rule(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn rule(argument: u8, operation: SeccompCmpOp, value: u64) -> Result<SeccompRule, Error> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operation, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(failed("compile the system call filter"))
}

fn failed<E: std::fmt::Display>(step: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::Sandbox {
        step,
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would make of a call: the filter's answer. Knows the instructions that the compiler of filters emits.
    fn answer(program: &BpfProgram, call: libc::c_long, arguments: [u64; 6]) -> u32 {
        let architecture = program[1..]
            .iter()
            .find(|step| step.code == 0x15)
            .map_or(0, |step| step.k);
        let mut data = Vec::new();
        data.extend(i32::try_from(call).unwrap().to_ne_bytes());
        data.extend(architecture.to_ne_bytes());
        data.extend(0u64.to_ne_bytes());
        data.extend(arguments.iter().flat_map(|argument| argument.to_ne_bytes()));
        let (mut at, mut value) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            let holds = match step.code {
                0x20 => {
                    let start = usize::try_from(step.k).unwrap();
                    value = u32::from_ne_bytes(data[start..start + 4].try_into().unwrap());
                    continue;
                }
                0x54 => {
                    value &= step.k;
                    continue;
                }
                0x05 => {
                    at += usize::try_from(step.k).unwrap();
                    continue;
                }
                0x06 => return step.k,
                0x15 => value == step.k,
                0x25 => value > step.k,
                0x35 => value >= step.k,
                code => panic!("unknown instruction {code:#x}"),
            };
            at += usize::from(if holds { step.jt } else { step.jf });
        }
    }

    #[test]
    fn only_this_process_can_be_signalled() {
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let program = filter(allowed().unwrap(), refused.clone(), SeccompAction::Allow).unwrap();
        let own = u64::from(std::process::id());
        let abort = libc::SIGABRT as u64;
        let tgkill = |process| answer(&program, libc::SYS_tgkill, [process, own, abort, 0, 0, 0]);
        assert_eq!(tgkill(own), u32::from(SeccompAction::Allow));
        for other in [0, 1, own + 1, u64::from(u32::MAX)] {
            assert_eq!(tgkill(other), u32::from(refused.clone()), "{other}");
        }
        let kill = answer(&program, libc::SYS_kill, [own, abort, 0, 0, 0, 0]);
        assert_eq!(kill, u32::from(refused));
    }
}
