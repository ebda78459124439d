//! Passes that changes cause.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use node_installer::watch::{RESCAN, watch};
use test_command::wait_until;

use crate::installer::machine::{DOCUMENT, DROP_INS, Machine, SETTINGS, WRAPPER, broken, document};

#[test]
fn every_change_is_picked_up() {
    let mut machine = Machine::new();
    let options = machine.options();
    let (mut stop, stopped) = UnixStream::pair().unwrap();
    let is_ready = AtomicBool::new(false);
    let ready = || is_ready.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            watch(&options, &BTreeSet::new(), stopped, |outcome| {
                is_ready.store(outcome.problems.is_empty(), Ordering::SeqCst);
                RESCAN
            })
        });
        wait_until("the first pass", || machine.host(DROP_INS[1]).exists() && ready());
        // The mount point itself appears, then what is in it changes.
        for name in ["one", "two", "three"] {
            machine.mount_document(&document(name));
            wait_until(name, || {
                fs::read_to_string(machine.host(DOCUMENT)).is_ok_and(|text| text == document(name))
            });
        }
        machine.mount_document(&broken());
        wait_until("not ready", || !ready());
        assert_eq!(machine.read(DOCUMENT), document("three"));
        machine.mount(&[]);
        wait_until("the removal", || machine.has_stand_in() && ready());
        assert!(machine.read(SETTINGS).contains("\ndocument = "));
        // Kata was installed anew.
        fs::remove_dir_all(machine.host("opt/kata/qemu-snp/config.d")).unwrap();
        wait_until("the drop-in", || machine.host(DROP_INS[0]).exists());
        stop.write_all(b"x").unwrap();
        watching.join().unwrap().unwrap();
    });
    assert!(machine.host(DROP_INS[0]).exists(), "an end is no uninstallation");
}

#[test]
fn what_cannot_be_watched_is_installed_all_the_same() {
    let machine = Machine::new();
    let (mut stop, stopped) = UnixStream::pair().unwrap();
    // The kernel refuses a watch on a link to itself, as it does when it has no watches left.
    std::os::unix::fs::symlink("secret", machine.path("secret")).unwrap();
    let options = machine.options();
    thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&options, &BTreeSet::new(), stopped, |_| RESCAN));
        wait_until("the first pass", || machine.host(DROP_INS[1]).exists());
        // What can be watched is.
        fs::remove_dir_all(machine.host("opt/kata/qemu-snp/config.d")).unwrap();
        wait_until("the drop-in", || machine.host(DROP_INS[0]).exists());
        stop.write_all(b"x").unwrap();
        watching.join().unwrap().unwrap();
    });
}

/// Noticed once after five minutes only.
#[test]
fn a_changed_file_is_noticed_at_once() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    let options = machine.options();
    let (mut stop, stopped) = UnixStream::pair().unwrap();
    let is_ready = AtomicBool::new(false);
    let ready = || is_ready.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            watch(&options, &BTreeSet::new(), stopped, |outcome| {
                is_ready.store(outcome.problems.is_empty(), Ordering::SeqCst);
                RESCAN
            })
        });
        for file in [DOCUMENT, WRAPPER, SETTINGS, DROP_INS[0]] {
            wait_until("the installation", &ready);
            fs::write(machine.host(file), "# changed\n").unwrap();
            wait_until("not ready", || !ready());
            assert_eq!(machine.read(file), "# changed\n");
            fs::remove_file(machine.host(file)).unwrap();
        }
        wait_until("the installation", &ready);
        stop.write_all(b"x").unwrap();
        watching.join().unwrap().unwrap();
    });
}
