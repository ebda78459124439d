//! Each wall, tried from inside. The rights are those of a thread, so each test has one of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use process_sandbox::calls::Calls;
use process_sandbox::files::{Enforced, Grant};
use process_sandbox::{capabilities, files};
use rustix::thread::CapabilitySet;

/// What `/proc/thread-self/status` says under `key`.
fn status(key: &str) -> String {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_once(':').unwrap().1.trim().to_owned()
}

fn in_a_thread(test: impl FnOnce() + Send + 'static) {
    thread::spawn(test).join().unwrap();
}

#[test]
fn no_capability_is_left_and_none_comes_back() {
    in_a_thread(|| {
        capabilities::keep_only(CapabilitySet::empty()).unwrap();
        assert_eq!(status("CapEff"), "0000000000000000");
        assert_eq!(status("CapPrm"), "0000000000000000");
        assert_eq!(status("NoNewPrivs"), "1");
        assert!(capabilities::keep_only(CapabilitySet::CHOWN).is_err());
    });
}

#[test]
fn files_are_reached_only_as_granted() {
    in_a_thread(|| {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("old"), "").unwrap();
            path
        };
        let (read, write, other) = (place("read"), place("write"), place("other"));
        let directories = [&read, &write].map(|path| File::open(path).unwrap());
        fs::create_dir(root.path().join("top")).unwrap();
        let top = File::open(root.path().join("top")).unwrap();
        let enforced = files::confine(&[
            (directories[0].as_fd(), Grant::Read),
            (directories[1].as_fd(), Grant::Files),
            (top.as_fd(), Grant::Directories),
        ])
        .unwrap();
        if enforced == Enforced::Absent {
            assert!(
                std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(),
                "this kernel has no Landlock"
            );
            println!("skipped: this kernel has no Landlock");
            return;
        }
        let refused = |result: std::io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied);
        };
        fs::read(read.join("old")).unwrap();
        refused(fs::write(read.join("new"), ""));
        refused(fs::remove_file(read.join("old")));
        fs::write(write.join("new"), "text").unwrap();
        fs::rename(write.join("new"), write.join("old")).unwrap();
        fs::remove_file(write.join("old")).unwrap();
        refused(std::os::unix::fs::symlink("x", write.join("link")));
        refused(fs::read(other.join("old")).map(drop));
        refused(fs::write(other.join("old"), ""));
        refused(fs::read("/etc/passwd").map(drop));
        refused(fs::create_dir(write.join("directory")));
        // Directories may come, move and go, and stay empty.
        let made = root.path().join("top/made");
        fs::create_dir(&made).unwrap();
        refused(fs::write(made.join("file"), ""));
        fs::rename(&made, root.path().join("top/moved")).unwrap();
        fs::remove_dir(root.path().join("top/moved")).unwrap();
    });
}

#[test]
fn calls_outside_the_list_fail_and_those_in_it_work() {
    in_a_thread(|| {
        let file = File::open("/proc/self/status").unwrap();
        // Joining the thread, and what the test's output takes, is in the base list but for these.
        let calls = Calls::base().unwrap();
        calls.clone().and(&[libc::SYS_openat, libc::SYS_statx, libc::SYS_lseek]).enforce().unwrap();
        assert_eq!(status("Seccomp:"), "2");
        drop(file);
        let refused = |kind: Option<i32>| assert_eq!(kind, Some(libc::EPERM));
        refused(Command::new("/bin/true").spawn().unwrap_err().raw_os_error());
        refused(TcpStream::connect("127.0.0.1:9").unwrap_err().raw_os_error());
        refused(fs::create_dir("/tmp/never").unwrap_err().raw_os_error());
        assert!(calls.enforce().is_err(), "no second filter");
        // Memory still comes and goes.
        assert_eq!(vec![1_u8; 8 << 20].len(), 8 << 20);
    });
}
