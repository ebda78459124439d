//! A working directory for one piece of work, while the rest of the process keeps its own.
//!
//! Some calls take only a page of text, and names that are relative to a well-chosen directory fit
//! where absolute ones do not.
#![expect(
    unsafe_code,
    reason = "what is no longer shared between threads is for the caller to know"
)]

use std::io;
use std::os::fd::BorrowedFd;
use std::thread;

use rustix::process::fchdir;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Does some work on a thread whose working directory is another one. Blocks.
///
/// # Errors
///
/// What the kernel said to the change; the work was not begun then.
pub fn work_in<T: Send>(
    directory: BorrowedFd<'_>,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let inside = || {
        // SAFETY: the rule of this call concerns descriptor tables, and only the file system
        // context is unshared: the thread shares its descriptors with the others as before.
        unsafe { unshare_unsafe(UnshareFlags::FS) }?;
        fchdir(directory)?;
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, inside)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env::current_dir;
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;

    #[test]
    fn the_working_directory_is_that_of_the_thread_alone() {
        let outside = current_dir().unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "content").unwrap();
        let handle = File::open(directory.path()).unwrap();
        let (inside, content) =
            work_in(handle.as_fd(), || (current_dir(), fs::read("file"))).unwrap();
        assert_eq!(inside.unwrap(), fs::canonicalize(directory.path()).unwrap());
        assert_eq!(content.unwrap(), b"content");
        assert_eq!(current_dir().unwrap(), outside);
        assert!(work_in(File::open("/dev/null").unwrap().as_fd(), || ()).is_err());
    }
}
