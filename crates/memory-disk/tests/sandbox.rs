//! The sandbox is in force before a VMM's first byte is read, for every thread.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code outside of test functions")]

use crate::support;

use std::fs;
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use support::{Disk, LIMIT, image};

#[test]
fn nothing_can_be_opened_connected_or_run() {
    let mut disk = Disk::serve(&image(1024), &["--escape"]);
    let output = disk.wait_for("escape: older thread: run a program");
    let tries: Vec<&str> =
        output.lines().filter_map(|line| line.strip_prefix("escape: ")).collect();
    assert_eq!(tries.len(), 20, "{output}");
    for line in tries {
        assert!(line.ends_with("PermissionDenied"), "{line}");
    }
    assert!(output.contains("info: sandboxed"), "{output}");
}

#[test]
fn every_thread_has_the_filter_and_no_rights() {
    let mut disk = Disk::serve(&image(1024), &[]);
    disk.wait_for("info: sandboxed");
    let _vmm = UnixStream::connect(disk.socket()).unwrap();
    disk.wait_for("info: the VMM connected");
    let tasks = format!("/proc/{}/task", disk.id());
    // The caller, the VMM's connection, the guest's queues.
    let start = Instant::now();
    while fs::read_dir(&tasks).unwrap().count() < 3 {
        assert!(start.elapsed() < LIMIT, "threads are missing");
        sleep(Duration::from_millis(10));
    }
    for task in fs::read_dir(tasks).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for line in [
            "Seccomp:\t2",
            "NoNewPrivs:\t1",
            "CapEff:\t0000000000000000",
            "CapPrm:\t0000000000000000",
        ] {
            assert!(status.contains(line), "{line} is missing in {status}");
        }
    }
}

#[test]
fn a_vmm_that_goes_away_ends_it() {
    let mut disk = Disk::serve(&image(1024), &[]);
    disk.wait_for("info: sandboxed");
    drop(UnixStream::connect(disk.socket()).unwrap());
    disk.ended_after("served: 0 requests, 0 refused, 0 bytes, complete: false");
}

#[test]
fn a_vmm_that_never_comes_ends_it() {
    let mut disk = Disk::serve(&image(512), &["--connect", "0.2"]);
    disk.ended_after("error: failed to serve the disk: no VMM connected within");
}

#[test]
fn a_vmm_that_talks_nonsense_is_told_off() {
    use std::io::Write;
    let mut disk = Disk::serve(&image(512), &[]);
    disk.wait_for("info: sandboxed");
    let mut vmm = UnixStream::connect(disk.socket()).unwrap();
    vmm.write_all(&[0xff; 64]).unwrap();
    disk.ended_after("error: failed to talk to the VMM over vhost-user: ");
}

#[test]
fn an_image_that_is_none_is_refused() {
    for bytes in [0, 511] {
        let mut disk = Disk::serve(&vec![0; bytes], &[]);
        disk.ended_after(&format!("error: failed to serve an image of {bytes} bytes"));
    }
}
