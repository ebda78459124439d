//! The rights that the threads of one layer give up, because they read unverified bytes.
//!
//! Each thread confines itself before it reads its first byte, and ends with its layer. The decoder
//! may only compute and talk to its neighbours. The unpacker may make files below the layer's root
//! and nowhere else, so a mistake in path resolution meets a second wall. Where the kernel lacks
//! one of the walls, or the service manager forbids it, the thread works behind the others, and the
//! log says so once.

use std::os::fd::BorrowedFd;
use std::sync::Once;

use process_sandbox::Error;
use process_sandbox::calls::{Argument, Calls};
use process_sandbox::files::{self, Enforced, Grant};

/// The system calls that making files takes, all relative to open directories. Paths are left to
/// Landlock.
const UNPACKING: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pwrite64,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_fsetxattr,
    libc::SYS_lsetxattr,
    libc::SYS_flistxattr,
    libc::SYS_fgetxattr,
    libc::SYS_fremovexattr,
    libc::SYS_lremovexattr,
];

/// Newer than some of the C libraries that this is built with; the same number everywhere.
const SYS_FCHMODAT2: libc::c_long = 452;

/// What is done to a file that is open, besides writing. No call here has a path: of the one that
/// could have one, it must be missing.
const FILLING: &[libc::c_long] = &[
    libc::SYS_lseek,
    libc::SYS_ftruncate,
    libc::SYS_fchown,
    libc::SYS_fchmod,
    libc::SYS_fsetxattr,
];

/// For a thread that turns bytes into bytes: no file, no network, no process.
pub(crate) fn computing() {
    report(Calls::base().and_then(Calls::enforce));
}

/// For a thread that fills files that others opened.
pub(crate) fn filling() {
    let no_path = [Argument::Equal(0)];
    let calls = Calls::base().map(|calls| calls.and(FILLING));
    let calls = calls.and_then(|calls| calls.only_with(libc::SYS_utimensat, 1, &no_path));
    report(calls.and_then(Calls::enforce));
}

/// For a thread that makes files below `root`.
pub(crate) fn unpacking(root: BorrowedFd<'_>) {
    let files = files::confine(&[(root, Grant::Tree)]);
    if matches!(files, Ok(Enforced::Absent)) {
        static SAID: Once = Once::new();
        SAID.call_once(|| tracing::info!("layers are unpacked without Landlock"));
    }
    report(files.map(drop));
    report(Calls::base().and_then(|calls| calls.and(UNPACKING).enforce()));
}

fn report(result: Result<(), Error>) {
    static SAID: Once = Once::new();
    if let Err(error) = result {
        SAID.call_once(
            || tracing::warn!(%error, "layers are unpacked with more rights than they need"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::{ErrorKind, Write as _};
    use std::net::TcpListener;
    use std::os::fd::AsFd as _;
    use std::thread;

    use rustix::fs::{
        AtFlags, Mode, fchmod, futimens, linkat, mkdirat, symlinkat, unlinkat, utimensat,
    };
    use rustix::io::Errno;

    fn denied<T>(result: std::io::Result<T>) -> bool {
        result.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    }

    #[test]
    fn a_decoder_has_nothing_but_its_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut open = tempfile::tempfile().unwrap();
        thread::spawn(move || {
            computing();
            assert!(denied(File::create(&path)));
            assert!(denied(File::open("/etc/passwd")));
            assert!(denied(TcpListener::bind("127.0.0.1:0")));
            assert!(denied(std::process::Command::new("/bin/true").status()));
            // What is open stays, and so does memory.
            open.write_all(&vec![7; 8 << 20]).unwrap();
        })
        .join()
        .unwrap();
        // The others keep their rights.
        File::open("/etc/passwd").unwrap();
    }

    #[test]
    fn an_unpacker_has_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        fs::create_dir(path.join("root")).unwrap();
        fs::write(path.join("beside"), "x").unwrap();
        let root = File::open(path.join("root")).unwrap();
        let copy = root.try_clone().unwrap();
        let has_landlock =
            thread::spawn(move || files::confine(&[(copy.as_fd(), Grant::Tree)]).unwrap());
        let has_landlock = has_landlock.join().unwrap() != Enforced::Absent;
        thread::spawn(move || {
            unpacking(root.as_fd());
            let inside = path.join("root");
            for name in ["a", "a/b"] {
                mkdirat(&root, name, Mode::from_raw_mode(0o755)).unwrap();
            }
            fs::write(inside.join("a/file"), "x").unwrap();
            linkat(&root, "a/file", &root, "a/b/link", AtFlags::empty()).unwrap();
            symlinkat("/etc", &root, "a/symlink").unwrap();
            unlinkat(&root, "a/file", AtFlags::empty()).unwrap();
            let beside = path.join("beside");
            assert!(denied(TcpListener::bind("127.0.0.1:0")));
            assert!(denied(std::process::Command::new("/bin/true").status()));
            assert!(denied(fs::rename(inside.join("a"), inside.join("b"))));
            assert!(inside.join("a/b/link").exists());
            if has_landlock {
                assert!(denied(fs::write(path.join("new"), "x")));
                assert!(denied(fs::write(inside.join("a/symlink/new"), "x")));
                assert!(denied(fs::read(&beside)));
                let removed = unlinkat(rustix::fs::CWD, &beside, AtFlags::empty());
                assert_eq!(removed, Err(Errno::ACCESS));
                assert!(denied(File::open("/etc/passwd")));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_filler_has_its_open_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut file = File::create(&path).unwrap();
        thread::spawn(move || {
            filling();
            file.write_all(b"x").unwrap();
            file.set_len(2).unwrap();
            let mode = file.metadata().map(drop);
            assert!(denied(mode), "nothing is asked");
            fchmod(&file, Mode::RUSR).unwrap();
            let times = crate::directory::times(7, 0);
            futimens(&file, &times).unwrap();
            let by_path = utimensat(rustix::fs::CWD, &path, &times, AtFlags::empty());
            assert_eq!(by_path, Err(Errno::PERM));
            assert!(denied(File::open(&path)));
            assert!(denied(fs::remove_file(&path)));
            assert!(denied(TcpListener::bind("127.0.0.1:0")));
        })
        .join()
        .unwrap();
    }
}
