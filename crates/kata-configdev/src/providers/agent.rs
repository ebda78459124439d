//! Whether the node agent asks the plugins for a document, so that no sandbox has to wait for them.
//!
//! For each document of its sets the agent holds a lock (`flock(2)`) on a file below
//! `RUN-ROOT/kata-configdev/agents`. The kernel lets go of it however the agent ends, so nobody
//! believes in an agent that is gone. The wrapper, when image and record of its sandbox are in
//! place, opens the file for writing and closes it: the agent watches the directory and makes a
//! pass, in which it sees the sandbox. If the lock is gone by then, the wrapper asks the plugins
//! itself; if it goes later, the agent sees the sandbox in its first pass when it starts again.
//!
//! Nothing is ever written to these files. No function here fails: in doubt nobody holds the lock.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linux_sys::lock;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use crate::digest;
use crate::run_directory::{PARENT, open_below};

/// The directory of the locks.
const NAME: &str = "agents";

/// How long the agent waits for a lock that a wrapper has for a moment, to see whether it is free.
const WITHIN: Duration = Duration::from_millis(10);

/// The lock of the agent that asks the plugins for one document.
#[derive(Debug)]
pub struct Asks(#[expect(dead_code, reason = "held, not used")] OwnedFd);

/// Where the locks are.
#[must_use]
pub fn directory(run_root: &Path) -> PathBuf {
    run_root.join(PARENT).join(NAME)
}

/// Makes the directory of the locks, so that it can be watched; says whether it is there.
pub fn prepare(run_root: &Path) -> bool {
    open_below(run_root, NAME, true).is_some()
}

/// Takes the lock for sandboxes below `run_root` whose document is at `document` on the node.
/// `None` where another agent has it, or there is no place for it.
#[must_use]
pub fn promise(run_root: &Path, document: &Path) -> Option<Asks> {
    // Not for writing: its end must not look like a wrapper's call.
    let flags = OFlags::RDONLY | OFlags::CREATE;
    let file = open_lock(run_root, document, flags, true)?;
    lock::exclusive(&file, WITHIN).unwrap_or(false).then(|| Asks(file))
}

/// Whether an agent asks the plugins for sandboxes with this document.
#[must_use]
pub fn is_promised(run_root: &Path, document: &Path) -> bool {
    let file = open_lock(run_root, document, OFlags::RDONLY, false);
    file.is_some_and(|file| is_held(&file))
}

/// Tells the agent that there is a sandbox for which it has to ask; says whether it is there.
#[must_use]
pub fn call(run_root: &Path, document: &Path) -> bool {
    let file = open_lock(run_root, document, OFlags::WRONLY, false);
    file.is_some_and(|file| is_held(&file))
}

fn open_lock(run_root: &Path, document: &Path, flags: OFlags, make: bool) -> Option<OwnedFd> {
    let directory = open_below(run_root, NAME, make)?;
    let name = digest::sha256(document.as_os_str().as_bytes());
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(&directory, name, flags, Mode::RUSR | Mode::WUSR).ok()
}

fn is_held(file: impl AsFd) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_for_one_document_and_ends_with_its_holder() {
        let run = tempfile::tempdir().unwrap();
        let (one, other) = (Path::new("/one.toml"), Path::new("/other.toml"));
        assert!(!is_promised(run.path(), one) && !call(run.path(), one));
        assert!(!directory(run.path()).exists());
        assert!(prepare(run.path()));
        let asks = promise(run.path(), one).unwrap();
        for _ in 0..2 {
            assert!(is_promised(run.path(), one) && call(run.path(), one));
        }
        assert!(!is_promised(run.path(), other));
        assert!(promise(run.path(), one).is_none());
        let also = promise(run.path(), other).unwrap();
        drop(asks);
        assert!(comes_true(|| !is_promised(run.path(), one) && !call(run.path(), one)));
        assert!(comes_true(|| promise(run.path(), one).is_some()));
        assert!(is_promised(run.path(), other));
        drop(also);
    }

    /// A process that another test starts has our descriptors, and so our locks, until its `execve`.
    fn comes_true(holds: impl Fn() -> bool) -> bool {
        (0..10_000).any(|attempt| {
            std::thread::sleep(Duration::from_millis(2) * u32::from(attempt > 0));
            holds()
        })
    }

    /// Root's directory, in which somebody else could hold a lock, says nothing.
    #[test]
    fn a_place_that_others_may_change_promises_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let run = tempfile::tempdir().unwrap();
        let document = Path::new("/one.toml");
        let _asks = promise(run.path(), document).unwrap();
        let open = PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(directory(run.path()), open).unwrap();
        assert!(!is_promised(run.path(), document));
        assert!(promise(run.path(), Path::new("/other.toml")).is_none());
    }
}
