//! A configuration disk that the host rewrites in a running guest.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::machine;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use machine::{
    CONFIGURATION, DOCUMENT, Machine, Refresher, UNVERIFIED, configuration, initdata, program,
};
use rustix::fs::{FlockOperation, flock};

/// A guest that ran once with [`CONFIGURATION`].
fn running() -> Machine {
    let machine = Machine::new()
        .cmdline(UNVERIFIED)
        .disk("vda", &initdata(DOCUMENT))
        .disk("vdb", &configuration(CONFIGURATION));
    assert!(program(&machine, &[]).status.success());
    machine
}

fn inode(machine: &Machine) -> u64 {
    let file = machine.path().join("run/insecure-cfg/imagepuller.toml");
    file.metadata().unwrap().ino()
}

/// An image that makes no sense.
fn torn() -> Vec<u8> {
    let mut torn = configuration("[extra-env]\n");
    torn[35] ^= 1;
    torn
}

#[track_caller]
fn eventually(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_file_is_replaced_only_if_it_changed() {
    let machine = running();
    let before = inode(&machine);
    let refresher = Refresher::start(&machine);
    assert_eq!(refresher.socket().metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(refresher.ask(), "unchanged");
    assert_eq!(inode(&machine), before);

    // Nothing happens before somebody asks.
    fs::write(machine.node("vdb"), configuration("[extra-env]\n")).unwrap();
    thread::sleep(Duration::from_millis(100));
    assert_eq!(inode(&machine), before);
    assert_eq!(refresher.ask(), "replaced");
    let log = refresher.log();
    assert!(log.contains("insecure-cfg/imagepuller.toml replaced, 12 bytes"), "{log}");
    assert_ne!(inode(&machine), before);
    let files = machine.insecure().unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(files["imagepuller.toml"], "[extra-env]\n");

    fs::write(machine.node("vdb"), configuration("")).unwrap();
    assert_eq!(refresher.ask(), "removed");
    assert_eq!(machine.insecure().unwrap().len(), 0);
    assert_eq!(refresher.ask(), "unchanged");
    fs::write(machine.node("vdb"), configuration(CONFIGURATION)).unwrap();
    assert_eq!(refresher.ask(), "replaced");

    // Whoever starts it again has its socket.
    let next = Refresher::start(&machine);
    assert_eq!(next.ask(), "unchanged");
}

#[test]
fn a_disk_that_was_refused_at_boot_can_be_mended() {
    let machine = running();
    fs::write(machine.node("vdb"), &configuration(CONFIGURATION)[..16]).unwrap();
    program(&machine, &[]);
    assert!(machine.insecure().unwrap().contains_key("imagepuller.error"));
    fs::write(machine.node("vdb"), configuration(CONFIGURATION)).unwrap();
    Refresher::start(&machine);
    let files = machine.insecure().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["imagepuller.toml"]);
}

#[test]
fn what_cannot_be_used_leaves_the_file_as_it_is() {
    let machine = running();
    let refresher = Refresher::start(&machine);
    let fails = |words: &str| {
        assert_eq!(refresher.ask(), "failed");
        let log = refresher.log();
        assert!(log.contains(words), "{log}");
        let files = machine.insecure().unwrap();
        assert_eq!(files["imagepuller.toml"], CONFIGURATION);
    };
    fs::write(machine.node("vdb"), torn()).unwrap();
    fails("inflate the gzip stream");
    fs::write(machine.node("vdb"), [0; 512]).unwrap();
    fails("vdb, which the boot found, cannot be used any more: offset 0");
    // Plugged in where the other one was, with the number that it had.
    fs::write(machine.node("vdb"), configuration("[extra-env]\n")).unwrap();
    let sequence = machine.options.paths.block.join("vdb/diskseq");
    fs::write(&sequence, "9").unwrap();
    fails("another disk is in its place");
    // None of that ended it.
    fs::remove_file(sequence).unwrap();
    assert_eq!(refresher.ask(), "replaced");
}

/// A refresh once believed every disk with the magic, also a volume that a container had written,
/// and one such volume beside the configuration disk ended all refreshes.
#[test]
fn only_what_the_boot_found_and_nobody_in_the_guest_can_write_is_read_again() {
    for (at_boot, code) in [(None, Some(69)), (Some("0"), Some(69)), (Some("1"), None)] {
        let mut machine = Machine::new().cmdline(UNVERIFIED);
        if let Some(read_only) = at_boot {
            machine = machine
                .disk("vdb", &configuration(CONFIGURATION))
                .attribute("vdb", "ro", read_only);
        }
        let booted = program(&machine, &[]);
        assert!(booted.status.success(), "{at_boot:?}");
        let before = machine.insecure().unwrap();
        assert_eq!(before.contains_key("imagepuller.toml"), at_boot.is_some());
        let log = String::from_utf8(booted.stderr).unwrap();
        let is_warned = log.contains("vdb: writable: what it says now is the host's");
        assert_eq!(is_warned, at_boot == Some("0"), "{log}");

        let early = code.is_none().then(|| Refresher::start(&machine));
        let machine = machine.disk("vdc", &configuration("[extra-env]\n"));
        let mut refresher = early.unwrap_or_else(|| Refresher::start(&machine));
        assert_eq!(refresher.ended(), code, "{at_boot:?}: {}", refresher.log());
        if code.is_some() {
            let log = refresher.log();
            assert!(log.contains("at boot there was no read-only disk"), "{log}");
            assert_eq!(machine.insecure().unwrap(), before);
            continue;
        }
        // The second disk came later; the first still is the one.
        assert_eq!(refresher.ask(), "unchanged");
        assert_eq!(machine.insecure().unwrap(), before);
        fs::write(machine.node("vdb"), configuration("[registries]\n")).unwrap();
        assert_eq!(refresher.ask(), "replaced");
        assert_eq!(machine.insecure().unwrap()["imagepuller.toml"], "[registries]\n");

        fs::write(machine.options.paths.block.join("vdb/ro"), "0").unwrap();
        fs::write(machine.node("vdb"), configuration("[extra-env]\n")).unwrap();
        assert_eq!(refresher.ask(), "failed");
        assert!(refresher.log().contains("vdb is writable now"), "{}", refresher.log());
        assert_eq!(machine.insecure().unwrap()["imagepuller.toml"], "[registries]\n");
    }
}

#[test]
fn nothing_is_accepted_where_initdata_was_refused_or_nobody_looked() {
    let machine =
        Machine::new().disk("vda", &initdata(DOCUMENT)).disk("vdb", &configuration(CONFIGURATION));
    let ends = |words: &str| {
        let mut refresher = Refresher::start(&machine);
        assert_eq!(refresher.ended(), Some(65));
        let log = refresher.log();
        assert!(log.contains(words), "{log}");
    };
    ends("has not run in this guest");
    assert_eq!(program(&machine, &[]).status.code(), Some(65));
    let before = machine.insecure().unwrap();
    ends("initdata was refused, so no configuration is accepted");
    assert_eq!(machine.insecure().unwrap(), before);
    assert!(before.contains_key("imagepuller.error"));
    machine.deny_policy();
}

/// What comes of a disk that is read when `run` is begun, and makes sense after it: the word, and
/// the names of the files.
fn meanwhile(machine: &Machine, run: impl FnOnce()) -> (String, Vec<String>) {
    let refresher = Refresher::start(machine);
    fs::write(machine.node("vdb"), torn()).unwrap();
    let word = thread::scope(|scope| {
        let asked = scope.spawn(|| refresher.ask());
        eventually(|| refresher.log().contains("read 1: "));
        // The read has no lock that would hold it.
        run();
        fs::write(machine.node("vdb"), configuration("[extra-env]\n")).unwrap();
        asked.join().unwrap()
    });
    assert!(refresher.log().contains("made sense at"), "{}", refresher.log());
    (word, machine.insecure().unwrap().into_keys().collect())
}

/// A refresh once asked only at its start whether initdata was refused, and then handed out what a
/// disk said seconds later.
#[test]
fn a_run_that_refuses_meanwhile_has_the_last_word() {
    let machine = running();
    let (word, files) = meanwhile(&machine, || {
        fs::write(&machine.options.paths.cmdline, "quiet\n").unwrap();
        assert_eq!(program(&machine, &[]).status.code(), Some(65));
    });
    assert_eq!((word.as_str(), files), ("failed", vec!["imagepuller.error".to_owned()]));
    assert!(machine.is_marked_refused());
}

#[test]
fn a_run_that_finds_another_disk_meanwhile_has_the_last_word() {
    let mut machine = running();
    machine = machine.disk("vdc", &configuration("[registries]\n"));
    machine.unplug("vdc");
    let (word, _) = meanwhile(&machine, || {
        let block = &machine.options.paths.block;
        fs::rename(block.join("vdb"), machine.path().join("unplugged")).unwrap();
        let disk = "../devices/pci0000:00/0000:00:05.0/virtio1/block/vdc";
        std::os::unix::fs::symlink(disk, block.join("vdc")).unwrap();
        assert!(program(&machine, &[]).status.success());
    });
    assert_eq!(word, "failed");
    assert_eq!(machine.insecure().unwrap()["imagepuller.toml"], "[registries]\n");
}

#[test]
fn nothing_is_placed_while_a_run_is_at_work() {
    let machine = running();
    let refresher = Refresher::start(&machine);
    assert_eq!(refresher.ask(), "unchanged");
    let directory = fs::File::open(machine.path().join("run/insecure-cfg")).unwrap();
    flock(&directory, FlockOperation::LockExclusive).unwrap();
    fs::write(machine.node("vdb"), configuration("[extra-env]\n")).unwrap();
    let before = inode(&machine);
    thread::scope(|scope| {
        let asked = scope.spawn(|| refresher.ask());
        eventually(|| refresher.log().contains("waiting for another run"));
        assert_eq!(inode(&machine), before);
        drop(directory);
        assert_eq!(asked.join().unwrap(), "replaced");
    });
}

/// A run once prepared its directories before it took the lock, and so took from another run what
/// that one was just placing.
#[test]
fn a_run_touches_nothing_before_it_has_the_lock() {
    let machine = running();
    let before = machine.measured();
    let directory = fs::File::open(machine.path().join("run/insecure-cfg")).unwrap();
    flock(&directory, FlockOperation::LockExclusive).unwrap();
    let mut ran = Command::new(env!("CARGO_BIN_EXE_initdata-processor"))
        .args(["--root"])
        .arg(machine.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(ran.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    assert!(first.contains("waiting for another run"), "{first}");
    assert_eq!(machine.measured(), before);
    drop(directory);
    let rest: Vec<_> = said.map(Result::unwrap).collect();
    assert_eq!(ran.wait().unwrap().code(), Some(0), "{rest:?}");
    assert_eq!(machine.measured(), before);
}

/// Whoever held the lock once held all later runs too, and the guest stood without a word.
#[test]
fn a_lock_that_does_not_become_free_ends_a_run_with_a_reason() {
    let machine = running().settings("patience = 0\n");
    let directory = fs::File::open(machine.path().join("run/insecure-cfg")).unwrap();
    flock(&directory, FlockOperation::LockExclusive).unwrap();
    let mut ran = Command::new(env!("CARGO_BIN_EXE_initdata-processor"))
        .args(["--root"])
        .arg(machine.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while ran.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            ran.kill().unwrap();
            panic!("it waits for ever");
        }
        thread::sleep(Duration::from_millis(50));
    }
    let output = ran.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(70));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("it has not ended after 5 s"), "{log}");
    let policy = machine.deny_policy();
    assert!(policy.contains("wait for another run or refresh"), "{policy}");
}

/// Whoever hangs up, or says what nobody wants to know, or never reads its answer, is no more than
/// one question.
#[test]
fn a_client_disturbs_no_other() {
    let machine = running();
    let refresher = Refresher::start(&machine);
    let connect = || UnixStream::connect(refresher.socket()).unwrap();
    let mut quiet = connect();
    for _ in 0..20 {
        drop(connect());
    }
    std::io::Write::write_all(&mut connect(), b"hello").unwrap();
    fs::write(machine.node("vdb"), configuration("[extra-env]\n")).unwrap();
    assert!(["replaced", "unchanged"].contains(&refresher.ask().as_str()));
    assert_eq!(machine.insecure().unwrap()["imagepuller.toml"], "[extra-env]\n");
    let mut word = String::new();
    quiet.read_to_string(&mut word).unwrap();
    assert!(!word.is_empty());
}

/// The host writes while the guest reads: every outcome is one of the two documents, whole.
#[test]
fn torn_reads_are_read_again_and_never_believed() {
    let machine = running();
    let documents = ["a", "b"].map(|word| format!("# {}\n", word.repeat(60_000)));
    let images = documents.each_ref().map(|text| configuration(text));
    let node = machine.node("vdb");
    fs::write(&node, &images[0]).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let disk = fs::OpenOptions::new().write(true).open(&node).unwrap();
            while !stop.load(Ordering::Relaxed) {
                for image in &images {
                    for (number, piece) in image.chunks(4096).enumerate() {
                        disk.write_all_at(piece, number as u64 * 4096).unwrap();
                        if number == 7 {
                            thread::sleep(Duration::from_millis(10));
                        }
                    }
                    // Most of the time the disk is whole, as after one update.
                    thread::sleep(Duration::from_millis(30));
                }
            }
        });
        let refresher = Refresher::start(&machine);
        let found: Vec<_> = (0..200)
            .map(|_| {
                thread::sleep(Duration::from_millis(5));
                let word = refresher.ask();
                (word, machine.insecure().unwrap().remove("imagepuller.toml"))
            })
            .collect();
        // First, or a failure would wait for the writer.
        stop.store(true, Ordering::Relaxed);
        for (word, file) in found {
            assert!(["replaced", "unchanged"].contains(&word.as_str()), "{}", refresher.log());
            assert!(documents.contains(&file.unwrap()), "a mix of two documents");
        }
        let log = refresher.log();
        assert!(log.contains("the host was rewriting it"), "no read met a half-written disk");
    });
}
