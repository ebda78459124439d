//! Passes that changes cause.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use node_installer::health::{Health, Server};
use node_installer::watch;
use test_command::wait_until;

use crate::machine::{DOCUMENT, DROP_INS, Machine, SETTINGS, broken, document};
use crate::process::get;

#[test]
fn every_change_is_picked_up() {
    let mut machine = Machine::new();
    let options = machine.options();
    let (mut stop, stopped) = UnixStream::pair().unwrap();
    let health = Health::default();
    let server = Server::start("127.0.0.1:0".parse().unwrap(), &health).unwrap();
    let address = server.address();
    let ready = || get(address, "/readyz").starts_with("HTTP/1.1 200 ");
    assert!(!ready());
    thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&options, &health, stopped));
        wait_until("the first pass", || {
            machine.host(DROP_INS[1]).exists() && ready()
        });
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
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 "));
        machine.mount(&[]);
        wait_until("the removal", || {
            !machine.host(DOCUMENT).exists() && ready()
        });
        assert!(!machine.read(SETTINGS).contains("document"));
        // Kata was installed anew.
        fs::remove_dir_all(machine.host("opt/kata/qemu-snp/config.d")).unwrap();
        wait_until("the drop-in", || machine.host(DROP_INS[0]).exists());
        stop.write_all(b"x").unwrap();
        watching.join().unwrap().unwrap();
    });
    assert!(
        machine.host(DROP_INS[0]).exists(),
        "an end is no uninstallation"
    );
}

#[test]
fn what_cannot_be_watched_is_installed_all_the_same() {
    let machine = Machine::new();
    let (mut stop, stopped) = UnixStream::pair().unwrap();
    // The kernel refuses a watch on a link to itself, as it does when it has no watches left.
    std::os::unix::fs::symlink("secret", machine.path("secret")).unwrap();
    let (options, health) = (machine.options(), Health::default());
    thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&options, &health, stopped));
        wait_until("the first pass", || machine.host(DROP_INS[1]).exists());
        // What can be watched is.
        fs::remove_dir_all(machine.host("opt/kata/qemu-snp/config.d")).unwrap();
        wait_until("the drop-in", || machine.host(DROP_INS[0]).exists());
        stop.write_all(b"x").unwrap();
        watching.join().unwrap().unwrap();
    });
}
