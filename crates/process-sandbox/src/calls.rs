//! System calls, by seccomp.

mod program;

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{BpfProgram, SeccompAction, apply_filter, apply_filter_all_threads};

use crate::Error;
use crate::error::failed;

/// The calls of any Rust program that holds its descriptors already: reading, writing, waiting,
/// memory, its own end. [`Calls::base`] adds what depends on arguments.
const BASE: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
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
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
];

/// A list of allowed system calls.
///
/// A call that is not on it fails with `EPERM` instead of ending the process, so that the program
/// can still log the reason, and so that an optional call of a C library does not end it.
#[derive(Clone, Debug)]
pub struct Calls(BTreeMap<c_long, Condition>);

/// The position of an argument, and what it must be, one of several; `None` where every argument
/// will do.
type Condition = Option<(u8, Vec<Argument>)>;

/// What an argument must be.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// Exactly this.
    Equal(u64),
    /// Exactly this in the lower half, where the kernel looks at no more.
    EqualLow(u32),
    /// With none of these bits.
    Without(u64),
    /// With all of these bits.
    With(u64),
}

impl Calls {
    /// What any program takes.
    ///
    /// Memory only without the right to be executed, and a signal only to the process itself, as an
    /// abort sends.
    ///
    /// # Errors
    ///
    /// None in practice: the conditions are fixed.
    pub fn base() -> Result<Self, Error> {
        let executable = Argument::Without(libc::PROT_EXEC as u64);
        Self(BTreeMap::new())
            .and(BASE)
            .only_with(libc::SYS_mmap, 2, &[executable])?
            .only_with(libc::SYS_mprotect, 2, &[executable])?
            .only_with(libc::SYS_tgkill, 0, &[Argument::EqualLow(std::process::id())])
    }

    /// Allows `further` too, whatever their arguments.
    #[must_use]
    pub fn and(mut self, further: &[c_long]) -> Self {
        self.0.extend(further.iter().map(|call| (*call, None)));
        self
    }

    /// Allows `call` where its argument at `position`, counted from 0, is one of `values`.
    ///
    /// # Errors
    ///
    /// A position that no call has.
    pub fn only_with(
        mut self,
        call: c_long,
        position: u8,
        values: &[Argument],
    ) -> Result<Self, Error> {
        if position > 5 {
            return Err(failed("compile the system call filter")("a call has six arguments"));
        }
        self.0.insert(call, Some((position, values.to_vec())));
        Ok(self)
    }

    /// Enforces the list for the calling thread and all that it starts.
    ///
    /// # Errors
    ///
    /// Where the kernel has no seccomp, or none for this architecture is known.
    pub fn enforce(self) -> Result<(), Error> {
        apply_filter(&self.compile()?).map_err(failed("seccomp"))
    }

    /// Enforces the list for all threads of the process, with threads allowed to be started.
    ///
    /// The arguments of `clone3` lie in memory, out of a filter's sight: it answers "no such call",
    /// which makes the C library take `clone`, of which only the form that makes a thread is
    /// allowed.
    ///
    /// # Errors
    ///
    /// As [`Calls::enforce`], or where a thread has a filter of its own.
    pub fn enforce_with_threads(self) -> Result<(), Error> {
        let threads = Argument::With((libc::CLONE_VM | libc::CLONE_THREAD) as u64);
        let list = self
            .and(&[
                libc::SYS_clone3,
                libc::SYS_set_robust_list,
                libc::SYS_rseq,
                libc::SYS_sched_getaffinity,
            ])
            .only_with(libc::SYS_clone, 0, &[threads])?
            .only_with(libc::SYS_prctl, 0, &[Argument::Equal(libc::PR_SET_NAME as u64)])?
            .compile()?;
        let clone3 = Self([(libc::SYS_clone3, None)].into());
        let missing = SeccompAction::Errno(libc::ENOSYS as u32);
        let no_clone3 = program::compile(&clone3, SeccompAction::Allow, missing)?;
        // The list last: it does not allow to install another filter.
        for program in [no_clone3, list] {
            apply_filter_all_threads(&program).map_err(failed("seccomp"))?;
        }
        Ok(())
    }

    fn compile(&self) -> Result<BpfProgram, Error> {
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        program::compile(self, refused, SeccompAction::Allow)
    }
}

impl Argument {
    /// A mask, and what the argument must be with it.
    fn bits(self) -> (u64, u64) {
        match self {
            Self::Equal(value) => (u64::MAX, value),
            Self::EqualLow(value) => (u32::MAX.into(), value.into()),
            Self::Without(bits) => (bits, 0),
            Self::With(bits) => (bits, bits),
        }
    }
}

#[cfg(test)]
#[path = "calls/tests.rs"]
mod tests;
