//! New content through the socket beside the VMM's; the guest's view of it is in `qemu.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code outside of test functions")]

use crate::support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use memory_disk::update::{Client, UpdateError};
use support::{Disk, LIMIT, image};

const BYTES: usize = 128 * 512;

fn new_content() -> Vec<u8> {
    image(BYTES).iter().map(|byte| !byte).collect()
}

/// A disk that takes updates, and a VMM that connected and says nothing.
fn disk(options: &[&str]) -> (Disk, UnixStream) {
    let mut disk = Disk::serve(&image(BYTES), &[&["--updates"], options].concat());
    disk.wait_for("info: sandboxed");
    let vmm = UnixStream::connect(disk.socket()).unwrap();
    disk.wait_for("info: the VMM connected");
    (disk, vmm)
}

/// Sends `content`; says whether it was new.
fn update(disk: &Disk, content: &[u8]) -> bool {
    Client::greet(disk.updates()).unwrap().send(content).unwrap()
}

#[test]
fn content_is_replaced_and_the_same_again_is_no_change() {
    let (mut disk, vmm) = disk(&[]);
    assert!(!update(&disk, &image(BYTES)));
    assert!(update(&disk, &new_content()));
    assert!(!update(&disk, &new_content()));
    assert!(update(&disk, &vec![0; BYTES]));
    drop(vmm);
    let output = disk.ended_after("info: the disk has new content\n");
    assert!(output.contains("served: "), "{output}");
    assert!(!output.contains("error"), "{output}");
}

#[test]
fn it_works_before_the_vmm_comes() {
    let mut disk = Disk::serve(&image(BYTES), &["--updates"]);
    disk.wait_for("info: sandboxed");
    assert!(update(&disk, &new_content()));
    drop(UnixStream::connect(disk.socket()).unwrap());
    disk.ended_after("info: the disk has new content\n");
}

#[test]
fn another_length_is_not_even_sent() {
    let (disk, _vmm) = disk(&[]);
    for bytes in [0, 512, BYTES - 1, BYTES + 512] {
        let refused = Client::greet(disk.updates()).unwrap().send(&vec![7; bytes]);
        assert!(matches!(
            refused,
            Err(UpdateError::Length { capacity: BYTES, bytes: b }) if b == bytes
        ));
    }
    assert!(!update(&disk, &image(BYTES)), "nothing changed");
}

/// A client that is killed in the middle.
#[test]
fn content_that_is_not_complete_changes_nothing() {
    let (disk, _vmm) = disk(&[]);
    for bytes in [0, 1, 512, BYTES - 1] {
        let mut client = disk.updates();
        client.write_all(&new_content()[..bytes]).unwrap();
        drop(client);
        assert!(!update(&disk, &image(BYTES)), "{bytes}");
    }
    // More than the disk holds: the rest is not looked at, and the next client is served.
    let mut client = disk.updates();
    client.write_all(&new_content()).unwrap();
    let _ = client.write_all(&[0xff; 4096]);
    let mut answers = Vec::new();
    let _ = client.read_to_end(&mut answers);
    assert!(!update(&disk, &new_content()), "{answers:?}");
}

/// Neither a client that sends nothing nor one that sends a byte now and then keeps the next one
/// away for good.
#[test]
fn a_slow_client_is_not_waited_for() {
    let (disk, _vmm) = disk(&[]);
    let _silent = disk.updates();
    let mut slow = disk.updates();
    slow.set_write_timeout(Some(LIMIT)).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            while slow.write_all(b"x").is_ok() {
                thread::sleep(std::time::Duration::from_millis(500));
            }
        });
        // Waits for the first, then for the second; a client's own patience is shorter than that of
        // both together.
        let patient = disk.updates();
        patient.set_read_timeout(Some(LIMIT)).unwrap();
        let mut greeting = [0; 17];
        (&patient).read_exact(&mut greeting).unwrap();
        (&patient).write_all(&new_content()).unwrap();
        let mut answer = [0];
        (&patient).read_exact(&mut answer).unwrap();
        assert_eq!(answer, [1]);
    });
}

#[test]
fn it_ends_with_the_vmm_also_while_a_client_is_served() {
    let (mut disk, vmm) = disk(&[]);
    let mut client = disk.updates();
    client.read_exact(&mut [0; 17]).unwrap();
    drop(vmm);
    disk.ended_after("served: 0 requests");
}

/// Only root and the device's own user may replace the content, whatever the socket's mode is.
#[test]
fn privileged_somebody_else_is_not_greeted() {
    const SOCKET: &str = "MEMORY_DISK_TEST_SOCKET";
    if let Ok(path) = std::env::var(SOCKET) {
        let greeted = UnixStream::connect(path).unwrap().read(&mut [0; 17]);
        assert!(matches!(greeted, Ok(0) | Err(_)), "{greeted:?}");
        return;
    }
    let (disk, _vmm) = disk(&[]);
    let folder = disk.socket().parent().unwrap().to_owned();
    let socket = folder.join("socket.updates");
    // A copy, because the target folder may be closed to others.
    let program = folder.join("test");
    // Another process copies: a child that a neighbour has just forked has all our descriptors
    // until its `exec`, and what somebody has open for writing cannot be executed.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    for (path, mode) in [(&folder, 0o755), (&socket, 0o777), (&program, 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let output = Command::new(&program)
        .args(["--exact", "update::privileged_somebody_else_is_not_greeted"])
        .env(SOCKET, &socket)
        .uid(65534)
        .current_dir("/")
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("1 passed"), "{output:?}");
        }
        Err(error) => {
            let required = std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_some();
            assert!(!required, "must not be skipped: {error}");
            eprintln!("skipped: {error}");
        }
    }
    assert!(update(&disk, &new_content()), "and root is");
}
