//! A copy of this process for work that the kernel may never give back, such as a read from a disk
//! that does not answer: a process in such a read cannot be ended, only left behind.
#![expect(unsafe_code, reason = "a process is copied, and both look at one page of memory")]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal, waitpid,
};

/// The longest answer, in words of eight bytes: with everything else that both processes see, it
/// fits into one page.
const MAX_ANSWER_WORDS: usize = 504;

/// The longest answer. A longer one is cut.
pub const MAX_ANSWER_BYTES: usize = 8 * MAX_ANSWER_WORDS;

/// How long a killed process gets to go away.
const LAST_BREATH: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Where the work stands: a name of up to 32 bytes that both processes see. Noting it is no system
/// call. Who reads it while it changes may see a mix of two.
#[derive(Debug)]
pub struct Place {
    name: [AtomicU64; 4],
    count: AtomicU64,
}

impl Place {
    /// The work is at `name` now.
    pub fn set(&self, name: &str) {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        for (word, bytes) in self.name.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        // Only one process writes here.
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// The name, as bytes of a process that is not believed; empty if there is none.
    #[must_use]
    pub fn get(&self) -> String {
        let words = self.name.iter().map(|word| word.load(Ordering::Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    /// How often the name was noted: another number means that the work goes on.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// What the work came to. In memory that both processes see, so that a copy that somebody has
/// taken over can neither make this process wait nor make it take more than there is room for.
#[derive(Debug)]
struct Answer {
    length: AtomicU64,
    words: [AtomicU64; MAX_ANSWER_WORDS],
}

impl Answer {
    fn set(&self, bytes: &[u8]) {
        for (to, bytes) in self.words.iter().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        let length = bytes.len().min(MAX_ANSWER_BYTES) as u64;
        self.length.store(length, Ordering::Relaxed);
    }

    /// Of a process that has ended, or else of one that may change it meanwhile.
    fn get(&self) -> Vec<u8> {
        let length = self.length.load(Ordering::Relaxed);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let words = self.words.iter().map(|word| word.load(Ordering::Relaxed));
        words.flat_map(u64::to_ne_bytes).take(length).collect()
    }
}

/// What both processes see.
#[derive(Debug)]
struct Shared {
    place: Place,
    answer: Answer,
}

/// The copy at work. It is killed with this process.
#[derive(Debug)]
pub struct Worker {
    pid: Pid,
    /// Readable when the copy has ended.
    end: OwnedFd,
    shared: &'static Shared,
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
    let shared: &'static Shared = unsafe {
        &*mmap_anonymous(
            null_mut(),
            size_of::<Shared>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
        )?
        .cast()
    };
    let parent = getpid();
    // SAFETY: this process has one thread, so its copy is whole. It never returns from here.
    match check(unsafe { libc::fork() })? {
        0 => {
            let _ = catch_unwind(AssertUnwindSafe(|| child(parent, shared, work)));
            // SAFETY: ends this process, at once.
            unsafe { libc::_exit(0) }
        }
        pid => {
            let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(end) => Ok(Worker { pid, end, shared }),
                Err(errno) => {
                    let _ = kill_process(pid, Signal::KILL);
                    Err(errno.into())
                }
            }
        }
    }
}

fn child(
    parent: Pid,
    shared: &'static Shared,
    work: impl FnOnce(&'static Place) -> Vec<u8>,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == Some(parent) {
        shared.answer.set(&work(&shared.place));
    }
    Ok(())
}

impl Worker {
    /// Waits until the copy has ended, but not longer than `patience`: `None` then. Else its
    /// answer, empty where the work was not finished.
    ///
    /// # Errors
    ///
    /// Those of waiting.
    pub fn wait(&mut self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        let patience = Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&self.end, PollFlags::IN)], Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => Ok(None),
            Ok(_) => Ok(Some(self.shared.answer.get())),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Where the work stands.
    #[must_use]
    pub fn place(&self) -> &'static Place {
        &self.shared.place
    }

    /// Kills the copy, unless it has ended. One that is in the kernel then stays there, and does
    /// nothing more when it comes out.
    pub fn kill(&self) {
        let _ = kill_process(self.pid, Signal::KILL);
    }

    /// Kills the copy, and waits a moment for it.
    pub fn end(self) {
        self.kill();
        if let Ok(1) = poll(&mut [PollFd::new(&self.end, PollFlags::IN)], Some(&LAST_BREATH)) {
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

impl AsFd for Worker {
    /// Readable when the copy has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
