//! A copy of this process for work that the kernel may never give back, such as a read from a disk
//! that does not answer: a process in such a read cannot be ended, only left behind.
#![expect(unsafe_code, reason = "a process is copied")]

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::abort;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal, waitpid,
};

/// How long a killed process gets to go away.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// The copy at work. It is killed with this process.
#[derive(Debug)]
pub struct Worker {
    pid: Pid,
    /// Readable when the copy has ended.
    end: OwnedFd,
}

/// What became of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The work came to this exit code.
    Code(u8),
    /// It panicked or was killed.
    Crashed,
}

/// Does `work` in a copy of this process, which then ends with the exit code that comes of it,
/// without running any destructor.
///
/// # Errors
///
/// `EINVAL` where this process has several threads: in a copy, locks that the others hold would
/// stay locked. Those of the system calls.
pub fn start(work: impl FnOnce() -> u8) -> io::Result<Worker> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(Errno::INVAL.into());
    }
    let parent = getpid();
    // SAFETY: this process has one thread, so its copy is whole. It never returns from here.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        0 => {
            let worked = catch_unwind(AssertUnwindSafe(|| {
                set_parent_process_death_signal(Some(Signal::KILL)).ok()?;
                // The parent may have ended before that.
                (getppid() == Some(parent)).then(work)
            }));
            match worked {
                // SAFETY: ends this process, at once.
                Ok(Some(code)) => unsafe { libc::_exit(code.into()) },
                Ok(None) | Err(_) => abort(),
            }
        }
        pid => {
            let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
            let end = pidfd_open(pid, PidfdFlags::empty());
            let end = end.inspect_err(|_| _ = kill_process(pid, Signal::KILL))?;
            Ok(Worker { pid, end })
        }
    }
}

impl Worker {
    /// Waits until the copy has ended, but not longer than `limit`: `None` then.
    ///
    /// # Errors
    ///
    /// Those of waiting.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<Ended>> {
        let limit = Timespec::try_from(limit).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&self.end, PollFlags::IN)], Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            ended => _ = ended?,
        }
        let ended = waitpid(Some(self.pid), WaitOptions::empty())?;
        let code = ended.and_then(|(_, status)| u8::try_from(status.exit_status()?).ok());
        Ok(Some(code.map_or(Ended::Crashed, Ended::Code)))
    }

    /// Kills the copy, and waits a moment for it. One that is in the kernel then stays there, and
    /// does nothing more when it comes out.
    pub fn kill(mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = self.wait(LAST_BREATH);
    }
}
