//! `refresh` on disks that the host rewrites, spoils or takes away: the file is always one whole
//! document.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::hostile_disks::changing::{Pair, rewrite};
use crate::hostile_disks::loops::{self, Loop};
use crate::hostile_disks::machine::{Machine, files};
use crate::hostile_disks::row::{Disk, Files};
use crate::hostile_disks::table::packed;
use crate::hostile_disks::verdict::check_log;

const ROUNDS: u32 = 60;
const FILE: &str = "run/insecure-cfg/imagepuller.toml";

/// Runs `refresh`; the exit code and what it said.
fn refresh(machine: &Machine, arguments: &[&str]) -> (Option<i32>, String) {
    let arguments = [&["refresh", "imagepuller", "--verbose"], arguments].concat();
    let output = machine.program(&arguments, "022", 24 << 20);
    check_log(&output.stderr).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), said.trim_end().to_owned())
}

fn placed(machine: &Machine) -> Files {
    files(&machine.path("run/insecure-cfg"))
}

/// Refreshes while `target` is rewritten, and once more when it has come to rest.
fn race(machine: &Machine, target: &Path, arguments: &[&str]) {
    let pair = Pair::configurations();
    machine.results(arguments, "022", 24 << 20).map(drop).unwrap();
    let stop = AtomicBool::new(false);
    let mut said = std::collections::BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| rewrite(target, &pair.images, &stop));
        for _ in 0..ROUNDS {
            let before = placed(machine);
            let (code, word) = refresh(machine, arguments);
            let after = placed(machine);
            let whole = matches!(pair.found(&after), Ok(Some(_)));
            let told = match (code, word.as_str()) {
                (Some(0), "replaced") => after != before,
                (Some(0), "unchanged") | (Some(65), "") => after == before,
                _ => false,
            };
            *said.entry(format!("{code:?} {word}")).or_insert(0) += 1;
            if !whole || !told {
                stop.store(true, Ordering::Relaxed);
                panic!("{code:?} {word}, files {:?}", after.keys());
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{said:?}");
    for image in &pair.images {
        write(target, image);
        let (code, _) = refresh(machine, arguments);
        assert_eq!(code, Some(0));
        let found = pair.found(&placed(machine)).unwrap();
        assert_eq!(found.map(|number| &pair.images[number]), Some(image));
    }
}

fn write(target: &Path, image: &[u8]) {
    let file = File::options().write(true).open(target).unwrap();
    file.write_all_at(image, 0).unwrap();
}

#[test]
fn files_refreshed_while_they_change() {
    let mut machine = Machine::new();
    machine.files(&[Pair::configurations().disk()]);
    machine.disks_change();
    race(&machine, &machine.path("dev/vdaaa"), &[]);
}

#[test]
fn privileged_loop_devices_refreshed_while_they_change() {
    if !loops::available() {
        return;
    }
    let mut machine = Machine::new();
    machine.disks_change();
    let disk = Pair::configurations().disk();
    let device = Loop::attach(&disk, true).unwrap();
    machine.show(&disk, &device);
    let arguments = ["--include-loop"];
    machine.results(&arguments, "022", 24 << 20).map(drop).unwrap();
    // Somebody has it open and has read it, so the page cache keeps what it was.
    let held = File::open(device.node()).unwrap();
    let cached = || {
        let mut bytes = vec![0; disk.bytes.len()];
        held.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    assert!(cached() == disk.bytes);
    write(device.file(), &Pair::configurations().images[1]);
    assert!(cached() == disk.bytes, "the page cache did not keep it");
    assert_eq!(refresh(&machine, &arguments), (Some(0), "replaced".to_owned()));

    race(&machine, device.file(), &arguments);
}

#[test]
fn what_makes_no_sense_leaves_the_file_as_it_is() {
    let mut machine = Machine::new();
    machine.files(&[packed(b"imgpullr", b"first"), Disk::new(vec![0; 512])]);
    machine.disks_change();
    machine.results(&[], "022", 8 << 20).map(drop).unwrap();
    let [target, second_disk] = ["dev/vdaaa", "dev/vdaab"].map(|name| machine.path(name));
    let inode = || fs::metadata(machine.path(FILE)).unwrap().ino();
    let first = Files::from([("imagepuller.toml".to_owned(), b"first".to_vec())]);

    let before = inode();
    assert_eq!(refresh(&machine, &[]), (Some(0), "unchanged".to_owned()));
    assert_eq!(inode(), before, "the file was written anew");

    let mut spoilt = packed(b"imgpullr", b"first").bytes;
    spoilt[16 + 15] ^= 1;
    write(&target, &spoilt);
    assert_eq!(refresh(&machine, &[]), (Some(65), String::new()));
    assert_eq!(placed(&machine), first);

    write(&target, &[0; 512]);
    assert_eq!(refresh(&machine, &[]), (Some(69), String::new()));
    assert_eq!(placed(&machine), first);

    write(&target, &packed(b"imgpullr", b"first").bytes);
    write(&second_disk, &packed(b"imgpullr", b"other").bytes);
    assert_eq!(refresh(&machine, &[]), (Some(0), "unchanged".to_owned()));
    assert_eq!(placed(&machine), first);

    write(&target, &packed(b"imgpullr", b"second").bytes);
    assert_eq!(refresh(&machine, &[]), (Some(0), "replaced".to_owned()));
    let second = Files::from([("imagepuller.toml".to_owned(), b"second".to_vec())]);
    assert_eq!(placed(&machine), second);

    write(&target, &packed(b"imgpullr", b"").bytes);
    assert_eq!(refresh(&machine, &[]), (Some(0), "removed".to_owned()));
    assert_eq!(placed(&machine), Files::new());
}

#[test]
fn nothing_is_refreshed_where_initdata_was_refused() {
    let machine = Machine::new();
    let bad = Disk::new([&b"initdata"[..], &[0; 504]].concat());
    machine.files(&[bad, packed(b"imgpullr", b"document")]);
    machine.results(&[], "022", 8 << 20).map(drop).unwrap();
    let before = placed(&machine);
    assert!(before.contains_key("initdata.refused"));
    assert_eq!(refresh(&machine, &[]), (Some(65), String::new()));
    assert_eq!(placed(&machine), before);
}
