//! A copy of this process for work that the kernel may never give back, such as a read from a disk
//! that does not answer: a process in such a read cannot be ended, only left behind.
#![expect(
    unsafe_code,
    reason = "a process is copied, and both look at one page of memory"
)]

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal, waitpid,
};

/// The longest answer; a pipe takes it at once.
pub const MAX_ANSWER_BYTES: usize = 4096;

/// How long a killed process gets to go away.
const LAST_BREATH: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// Where the work stands: a name of up to 32 bytes that both processes see. Noting it is no system
/// call. Who reads it while it changes may see a mix of two.
#[derive(Debug)]
pub struct Place([AtomicU64; 4]);

impl Place {
    /// The work is at `name` now.
    pub fn set(&self, name: &str) {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        for (word, bytes) in self.0.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    /// The name, as bytes of a process that is not believed; empty if there is none.
    #[must_use]
    pub fn get(&self) -> String {
        let words = self.0.iter().map(|word| word.load(Ordering::Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

/// The copy at work. It is killed with this process.
#[derive(Debug)]
pub struct Worker {
    pid: Pid,
    answer: File,
    place: &'static Place,
}

/// Does `work` in a copy of this process, which then ends without running any destructor. A panic
/// in it is an empty answer.
///
/// # Errors
///
/// `EINVAL` where this process has several threads: in a copy, locks that the others hold would
/// stay locked. Those of the system calls.
pub fn start(work: impl FnOnce(&'static Place) -> Vec<u8>) -> io::Result<Worker> {
    // SAFETY: a number. Changes nothing, and fails in a process with several threads.
    check(unsafe { libc::unshare(libc::CLONE_THREAD) })?;
    // SAFETY: a fresh mapping at an address of the kernel's choice, which is zero, large enough and
    // aligned for this type, and is never unmapped.
    let place: &'static Place = unsafe {
        &*mmap_anonymous(
            null_mut(),
            size_of::<Place>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
        )?
        .cast()
    };
    let (answer, sink) = pipe_with(PipeFlags::CLOEXEC)?;
    let parent = getpid();
    // SAFETY: this process has one thread, so its copy is whole. It never returns from here.
    match check(unsafe { libc::fork() })? {
        0 => {
            drop(answer);
            let _ = catch_unwind(AssertUnwindSafe(|| child(parent, place, sink, work)));
            // SAFETY: ends this process, at once.
            unsafe { libc::_exit(0) }
        }
        pid => Ok(Worker {
            pid: Pid::from_raw(pid).ok_or(Errno::SRCH)?,
            answer: answer.into(),
            place,
        }),
    }
}

fn child(
    parent: Pid,
    place: &'static Place,
    sink: OwnedFd,
    work: impl FnOnce(&'static Place) -> Vec<u8>,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        return Ok(());
    }
    let mut answer = work(place);
    answer.truncate(MAX_ANSWER_BYTES);
    File::from(sink).write_all(&answer)
}

impl Worker {
    /// Waits for the answer, but not longer than `patience`: `None` then. Empty where the work was
    /// not finished.
    ///
    /// # Errors
    ///
    /// Those of the pipe.
    pub fn wait(&mut self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        let patience = Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
        let mut readable = [PollFd::new(&self.answer, PollFlags::IN)];
        match poll(&mut readable, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut answer = Vec::new();
        let limit = MAX_ANSWER_BYTES as u64;
        Read::by_ref(&mut self.answer)
            .take(limit)
            .read_to_end(&mut answer)?;
        Ok(Some(answer))
    }

    /// Where the work stands.
    #[must_use]
    pub fn place(&self) -> &'static Place {
        self.place
    }

    /// Kills the copy, unless it has ended, and waits a moment for it. One that is in the kernel
    /// then stays there, and does nothing more when it comes out.
    pub fn end(self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let Ok(end) = pidfd_open(self.pid, PidfdFlags::empty()) else {
            return;
        };
        if let Ok(1) = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&LAST_BREATH)) {
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
