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

use machine::{CONFIGURATION, DOCUMENT, Machine, UNVERIFIED, configuration, initdata, program};
use rustix::fs::{FlockOperation, flock};

/// A guest that ran once with [`CONFIGURATION`].
fn running() -> Machine {
    let machine = Machine::new()
        .cmdline(UNVERIFIED)
        .disk("vda", &initdata(DOCUMENT))
        .disk("vdb", &configuration(CONFIGURATION));
    assert!(program(&machine, &["--strict-exit"]).status.success());
    machine
}

/// What `refresh` says, does and leaves.
fn refresh(machine: &Machine) -> (Option<i32>, String, String) {
    let output = program(machine, &["refresh", "imagepuller"]);
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(!log.contains("c2VjcmV0"), "a secret in the log: {log}");
    let word = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), word.trim_end().to_owned(), log)
}

fn inode(machine: &Machine) -> u64 {
    let file = machine.path().join("run/insecure-cfg/imagepuller.toml");
    file.metadata().unwrap().ino()
}

#[test]
fn the_file_is_replaced_only_if_it_changed() {
    let machine = running();
    let before = inode(&machine);
    let (code, word, _) = refresh(&machine);
    assert_eq!((code, word.as_str()), (Some(0), "unchanged"));
    assert_eq!(inode(&machine), before);

    fs::write(machine.node("vdb"), configuration("[extra-env]\n")).unwrap();
    let (code, word, log) = refresh(&machine);
    assert_eq!((code, word.as_str()), (Some(0), "replaced"));
    assert!(log.contains("insecure-cfg/imagepuller.toml replaced, 12 bytes"));
    assert_ne!(inode(&machine), before);
    let files = machine.insecure().unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(files["imagepuller.toml"], "[extra-env]\n");

    fs::write(machine.node("vdb"), configuration("")).unwrap();
    assert_eq!(refresh(&machine).1, "removed");
    assert_eq!(machine.insecure().unwrap().len(), 0);
    assert_eq!(refresh(&machine).1, "unchanged");
    fs::write(machine.node("vdb"), configuration(CONFIGURATION)).unwrap();
    assert_eq!(refresh(&machine).1, "replaced");
}

#[test]
fn a_disk_that_was_refused_at_boot_can_be_mended() {
    let machine = running();
    fs::write(machine.node("vdb"), &configuration(CONFIGURATION)[..16]).unwrap();
    program(&machine, &[]);
    assert!(machine.insecure().unwrap().contains_key("imagepuller.error"));
    fs::write(machine.node("vdb"), configuration(CONFIGURATION)).unwrap();
    assert_eq!(refresh(&machine).1, "replaced");
    let files = machine.insecure().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["imagepuller.toml"]);
}

#[test]
fn what_cannot_be_used_leaves_the_file_as_it_is() {
    let machine = running();
    let good = configuration("[extra-env]\n");
    let mut torn = good.clone();
    torn[35] ^= 1;
    fs::write(machine.node("vdb"), torn).unwrap();
    let (code, word, log) = refresh(&machine);
    assert_eq!((code, word.as_str()), (Some(65), ""), "{log}");
    assert!(log.contains("inflate the gzip stream"), "{log}");

    let machine = machine.plug("vdb", &[0; 512]);
    let (code, _, log) = refresh(&machine);
    assert_eq!(code, Some(69));
    assert!(log.contains("vdb, which the boot found, cannot be used any more: offset 0"));

    // Plugged in where the other one was, with the number that it had.
    let machine = machine.plug("vdb", &good).attribute("vdb", "diskseq", "9");
    let (code, _, log) = refresh(&machine);
    assert_eq!(code, Some(69));
    assert!(log.contains("another disk is in its place"), "{log}");
    let files = machine.insecure().unwrap();
    assert_eq!(files["imagepuller.toml"], CONFIGURATION);
}

/// A refresh once believed every disk with the magic, also a volume that a container had written,
/// and one such volume beside the configuration disk ended all refreshes.
#[test]
fn only_what_the_boot_found_and_nobody_in_the_guest_can_write_is_read_again() {
    let other = configuration("[extra-env]\n");
    for (story, at_boot, then, expected) in [
        ("a second disk is ignored", Some("1"), "1", (Some(0), "unchanged", "")),
        ("no disk at boot", None, "1", (Some(69), "", "at boot there was no read-only disk")),
        ("writable at boot", Some("0"), "1", (Some(69), "", "at boot there was no read-only disk")),
        ("writable later", Some("1"), "0", (Some(65), "", "vdb is writable now")),
    ] {
        let mut machine = Machine::new().cmdline(UNVERIFIED);
        if let Some(read_only) = at_boot {
            machine = machine
                .disk("vdb", &configuration(CONFIGURATION))
                .attribute("vdb", "ro", read_only);
        }
        let booted = program(&machine, &["--strict-exit"]);
        assert!(booted.status.success(), "{story}");
        let before = machine.insecure().unwrap();
        assert_eq!(before.contains_key("imagepuller.toml"), at_boot.is_some());
        let log = String::from_utf8(booted.stderr).unwrap();
        let is_warned = log.contains("vdb: writable: what it says now is the host's");
        assert_eq!(is_warned, at_boot == Some("0"), "{story}: {log}");

        let machine = machine.disk("vdc", &other);
        if at_boot.is_some() {
            fs::write(machine.options.paths.block.join("vdb/ro"), then).unwrap();
        }
        let (code, word, log) = refresh(&machine);
        assert_eq!((code, word.as_str()), (expected.0, expected.1), "{story}: {log}");
        assert!(log.contains(expected.2), "{story}: {log}");
        assert_eq!(machine.insecure().unwrap(), before, "{story}");
    }
}

#[test]
fn nothing_is_accepted_where_initdata_was_refused_or_nobody_looked() {
    let machine =
        Machine::new().disk("vda", &initdata(DOCUMENT)).disk("vdb", &configuration(CONFIGURATION));
    let (code, _, log) = refresh(&machine);
    assert_eq!(code, Some(65));
    assert!(log.contains("has not run in this guest"), "{log}");
    assert!(program(&machine, &[]).status.success(), "refused, and told");
    let before = machine.insecure().unwrap();
    let (code, _, log) = refresh(&machine);
    assert_eq!(code, Some(65));
    assert!(log.contains("initdata was refused, so no configuration is accepted"));
    assert_eq!(machine.insecure().unwrap(), before);
    assert!(before.contains_key("imagepuller.error"));
    machine.deny_policy();
}

/// A refresh once asked only at its start whether initdata was refused, and then handed out what a
/// disk said seconds later.
#[test]
fn a_run_that_refuses_meanwhile_has_the_last_word() {
    let machine = running();
    let mut torn = configuration("[extra-env]\n");
    torn[35] ^= 1;
    fs::write(machine.node("vdb"), torn).unwrap();
    thread::scope(|scope| {
        let refreshed = scope.spawn(|| refresh(&machine));
        // It reads again and again for two seconds, under a lock.
        let directory = fs::File::open(machine.path().join("run/insecure-cfg")).unwrap();
        let start = Instant::now();
        while flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            flock(&directory, FlockOperation::Unlock).unwrap();
            assert!(start.elapsed() < Duration::from_secs(60), "nobody refreshes");
            thread::sleep(Duration::from_millis(1));
        }
        drop(directory);
        fs::write(&machine.options.paths.cmdline, "quiet\n").unwrap();
        let ran = scope.spawn(|| program(&machine, &["--strict-exit"]));
        thread::sleep(Duration::from_millis(100));
        fs::write(machine.node("vdb"), configuration("[extra-env]\n")).unwrap();
        assert_eq!(refreshed.join().unwrap().0, Some(0), "it came first");
        assert_eq!(ran.join().unwrap().status.code(), Some(65));
    });
    let files = machine.insecure().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["imagepuller.error"]);
    assert!(machine.is_marked_refused());
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
        .args(["--strict-exit", "--root"])
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
    let machine = running();
    let directory = fs::File::open(machine.path().join("run/insecure-cfg")).unwrap();
    flock(&directory, FlockOperation::LockExclusive).unwrap();
    let mut ran = Command::new(env!("CARGO_BIN_EXE_initdata-processor"))
        .args(["--wait", "0", "--patience", "0", "--root"])
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

#[test]
fn an_unknown_name_is_a_usage_error_that_names_the_known_ones() {
    let output = program(&running(), &["refresh", "initdata"]);
    assert_eq!(output.status.code(), Some(64));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("the known ones are imagepuller"), "{log}");
}

/// A guest once learnt of new credentials only when a timer fired, minutes later.
#[test]
fn a_watcher_notices_a_new_document_by_itself_and_when_it_is_asked() {
    let machine = running();
    let mut watcher = Command::new(env!("CARGO_BIN_EXE_initdata-processor"))
        .args(["refresh", "imagepuller", "--watch", "--root"])
        .arg(machine.path())
        .spawn()
        .unwrap();
    let socket = machine.path().join("run/initdata-processor/imagepuller.socket");
    let ask = || {
        let mut word = String::new();
        let mut stream = UnixStream::connect(&socket)?;
        stream.read_to_string(&mut word).map(|_| word)
    };
    let file = || fs::read_to_string(machine.path().join("run/insecure-cfg/imagepuller.toml"));
    eventually(|| ask().is_ok());
    assert_eq!(socket.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(ask().unwrap(), "unchanged");

    let long = |end: &str| format!("# {}{end}\n", "x".repeat(2000));
    for end in ["a", "b"] {
        fs::write(machine.node("vdb"), configuration(&long(end))).unwrap();
        assert_eq!(ask().unwrap(), "replaced");
        assert_eq!(file().unwrap(), long(end));
    }
    // Nobody asks, and only the last sector holds another letter.
    fs::write(machine.node("vdb"), configuration(&long("c"))).unwrap();
    eventually(|| file().unwrap() == long("c"));

    fs::write(machine.node("vdb"), [0; 512]).unwrap();
    assert_eq!(ask().unwrap(), "failed");
    assert_eq!(file().unwrap(), long("c"));
    fs::write(machine.node("vdb"), configuration("")).unwrap();
    eventually(|| file().is_err());
    watcher.kill().unwrap();
    watcher.wait().unwrap();

    machine.unplug("vdb");
    assert!(program(&machine, &["--strict-exit"]).status.success());
    let output = program(&machine, &["refresh", "imagepuller", "--watch"]);
    assert_eq!(output.status.code(), Some(69), "there is nothing to watch");
}

#[track_caller]
fn eventually(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120));
        thread::sleep(Duration::from_millis(20));
    }
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
        let mut read_again = 0;
        for _ in 0..40 {
            let (code, word, log) = refresh(&machine);
            assert_eq!(code, Some(0), "{word}: {log}");
            let file = &machine.insecure().unwrap()["imagepuller.toml"];
            assert!(documents.contains(file), "a mix of two documents");
            read_again += u32::from(log.contains("the host was rewriting it"));
        }
        assert!(read_again > 0, "no read met a half-written disk");
        stop.store(true, Ordering::Relaxed);
    });
}
