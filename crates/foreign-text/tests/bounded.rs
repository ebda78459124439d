//! Reading up to a limit.
#![cfg(feature = "file")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::Path;

use foreign_text::bounded::{ReadError, if_there, read_file, read_in, read_path, read_stream};
use rustix::fs::{CWD, FileType, Mode, mknodat};

fn fault(path: &Path) -> String {
    read_path(path, 10).unwrap_err().to_string()
}

#[test]
fn a_file_is_read_up_to_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let directory = File::open(dir.path()).unwrap();
    for content in ["", "0123456789"] {
        fs::write(&path, content).unwrap();
        assert_eq!(read_path(&path, 10).unwrap().as_slice(), content.as_bytes());
        let file = File::open(&path).unwrap();
        assert_eq!(read_file(file, 10).unwrap().as_slice(), content.as_bytes());
        let read = read_in(&directory, "file", 10).unwrap();
        assert_eq!(read.as_slice(), content.as_bytes());
    }
    fs::write(&path, "0123456789a").unwrap();
    assert_eq!(fault(&path), "it has more than 10 bytes");
    let too_long = read_in(&directory, "file", 10).unwrap_err();
    assert!(matches!(too_long, ReadError::TooLong { limit: 10 }));
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    assert_eq!(read_path(&link, 11).unwrap().len(), 11);
    let refused = read_in(&directory, "link", 11).unwrap_err().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
}

#[test]
fn what_is_not_there_may_be_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent");
    assert!(fault(&absent).contains("No such file"), "{}", fault(&absent));
    assert!(if_there(read_path(&absent, 10)).unwrap().is_none());
    let directory = File::open(dir.path()).unwrap();
    assert!(if_there(read_in(&directory, "absent", 10)).unwrap().is_none());
    assert!(if_there(read_path(dir.path(), 10)).is_err());
    fs::write(&absent, "x").unwrap();
    assert_eq!(if_there(read_path(&absent, 10)).unwrap().unwrap().as_slice(), b"x");
    let error = io::Error::from(read_path(dir.path().join("no"), 1).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let error = io::Error::from(ReadError::TooLong { limit: 3 });
    assert_eq!(error.to_string(), "it has more than 3 bytes");
}

#[test]
fn what_is_no_regular_file_is_not_read_and_hangs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let link = dir.path().join("link");
    symlink(&fifo, &link).unwrap();
    // A FIFO without a writer would block an open for ever.
    for path in [&fifo, &link, dir.path(), Path::new("/dev/zero")] {
        assert_eq!(fault(path), "it is not a regular file", "{}", path.display());
    }
    let directory = File::open(dir.path()).unwrap();
    assert!(matches!(read_in(directory, "fifo", 10), Err(ReadError::NotRegular)));
}

/// Gives a few bytes at a time, as pipes do, and is interrupted between them.
struct Slow(usize, bool);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = buffer.len().min(self.0).min(3);
        buffer[..count].fill(b'x');
        self.0 -= count;
        Ok(count)
    }
}

#[test]
fn a_stream_without_a_size_ends_at_the_limit() {
    for (length, limit, is_read) in [
        (0, 0, true),
        (1, 0, false),
        (10, 10, true),
        (11, 10, false),
        (10_000, 10_000, true),
        (10_000, 1 << 40, true),
        (10_001, 10_000, false),
    ] {
        let read = read_stream(Slow(length, false), limit);
        assert_eq!(read.is_ok(), is_read, "{length} of {limit}");
        assert!(read.is_err() || read.is_ok_and(|read| read.len() == length));
    }
    assert!(read_stream(io::repeat(b'x'), 10).is_err());
    assert_eq!(read_stream(io::repeat(b'x').take(10), 10).unwrap().len(), 10);
    // A file that the kernel gives no size.
    assert!(!read_stream(File::open("/proc/self/status").unwrap(), 1 << 20).unwrap().is_empty());
}
