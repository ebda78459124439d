//! A file that one process has at a time, by `flock(2)`.

use std::io;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, flock, fstat, statat};
use rustix::io::Errno;

/// How soon a lock is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Locks `file` until it and every copy of its descriptor is closed; says whether that was possible
/// `within` this time.
///
/// # Errors
///
/// Those of `flock(2)`.
pub fn exclusive(file: impl AsFd, within: Duration) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if start.elapsed() < within => sleep(AGAIN_AFTER),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Says whether `file` still has the name `name` in `directory`: a lock on one that was replaced
/// says nothing.
///
/// # Errors
///
/// Those of the system calls.
pub fn is_named(file: impl AsFd, directory: impl AsFd, name: &str) -> io::Result<bool> {
    let named = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(false),
        found => found?,
    };
    let locked = fstat(file)?;
    Ok((named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_lock_is_waited_for_and_belongs_to_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (directory, create) =
            (File::open(dir.path()).unwrap(), || File::create(&path).unwrap());
        let (one, other) = (create(), File::open(&path).unwrap());
        assert!(exclusive(&one, Duration::ZERO).unwrap());
        assert!(!exclusive(&other, Duration::from_millis(5)).unwrap());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| exclusive(&other, Duration::from_secs(60)).unwrap());
            flock(&one, FlockOperation::Unlock).unwrap();
            assert!(waiting.join().unwrap());
        });
        assert!(is_named(&other, &directory, "file").unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!is_named(&other, &directory, "file").unwrap());
        create();
        assert!(!is_named(&other, &directory, "file").unwrap());
    }
}
