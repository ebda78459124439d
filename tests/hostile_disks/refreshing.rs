//! `refresh` on disks that the host rewrites, spoils or takes away: the file is always one whole
//! document.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::hostile_disks::changing::{Pair, rewrite};
use crate::hostile_disks::loops::{self, Loop};
use crate::hostile_disks::machine::{Machine, files};
use crate::hostile_disks::row::{Disk, Files};
use crate::hostile_disks::table::packed;
use crate::hostile_disks::verdict::check_log;

/// How many refreshes there are while a disk is rewritten.
const ROUNDS: u32 = 100;
const FILE: &str = "run/insecure-cfg/imagepuller.toml";

/// A `refresh` that listens. Ends when dropped.
struct Refresher<'a> {
    machine: &'a Machine,
    process: Child,
}

impl<'a> Refresher<'a> {
    fn start(machine: &'a Machine, arguments: &[&str]) -> Self {
        let log = File::create(machine.path("refresh.log")).unwrap();
        let listen = format!("unix:{}", machine.path("refresh.socket").display());
        let own = ["refresh", "--verbose", "--listen", &listen];
        let mut command = machine.command(&[&own, arguments].concat(), "022", 24 << 20);
        let refresher = Self { machine, process: command.stderr(log).spawn().unwrap() };
        let start = Instant::now();
        while refresher.asked().is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody listens");
            sleep(Duration::from_millis(5));
        }
        refresher
    }

    fn asked(&self) -> std::io::Result<String> {
        let mut word = String::new();
        let mut stream = UnixStream::connect(self.machine.path("refresh.socket"))?;
        stream.read_to_string(&mut word).map(|_| word)
    }

    /// Asks for a refresh; the word that comes.
    fn ask(&self) -> String {
        self.asked().unwrap()
    }
}

impl Drop for Refresher<'_> {
    fn drop(&mut self) {
        // Which `timeout` passes on.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
        check_log(&fs::read(self.machine.path("refresh.log")).unwrap()).unwrap();
    }
}

fn placed(machine: &Machine) -> Files {
    files(&machine.path("run/insecure-cfg"))
}

/// Refreshes while `target` is rewritten, and once more when it has come to rest.
fn race(machine: &Machine, target: &Path, refresher: &Refresher<'_>) {
    let pair = Pair::configurations();
    let stop = AtomicBool::new(false);
    let mut said = std::collections::BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| rewrite(target, &pair.images, &stop));
        for _ in 0..ROUNDS {
            let before = placed(machine);
            let word = refresher.ask();
            let after = placed(machine);
            let whole = matches!(pair.found(&after), Ok(Some(_)));
            let told = match word.as_str() {
                "replaced" => after != before,
                "unchanged" | "failed" => after == before,
                _ => false,
            };
            if !whole || !told {
                stop.store(true, Ordering::Relaxed);
                panic!("{word}, files {:?}", after.keys());
            }
            *said.entry(word).or_insert(0) += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{said:?}");
    for image in &pair.images {
        write(target, image);
        assert_ne!(refresher.ask(), "failed");
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
    machine.results(&[], "022", 24 << 20).map(drop).unwrap();
    let refresher = Refresher::start(&machine, &[]);
    race(&machine, &machine.path("dev/vdaaa"), &refresher);
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
    let refresher = Refresher::start(&machine, &arguments);
    assert_eq!(refresher.ask(), "unchanged");
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
    assert_eq!(refresher.ask(), "replaced");
    let found = Pair::configurations().found(&placed(&machine));
    assert_eq!(found.unwrap(), Some(1));
    assert!(cached() == disk.bytes);

    race(&machine, device.file(), &refresher);
}

#[test]
fn what_makes_no_sense_leaves_the_file_as_it_is() {
    let mut machine = Machine::new();
    machine.files(&[packed(b"imgpullr", b"first"), Disk::new(vec![0; 512])]);
    machine.disks_change();
    machine.results(&[], "022", 8 << 20).map(drop).unwrap();
    let refresher = Refresher::start(&machine, &[]);
    let [target, second_disk] = ["dev/vdaaa", "dev/vdaab"].map(|name| machine.path(name));
    let inode = || fs::metadata(machine.path(FILE)).unwrap().ino();
    let holds = |text: &[u8]| {
        let files = Files::from([("imagepuller.toml".to_owned(), text.to_vec())]);
        assert_eq!(placed(&machine), files);
    };

    let before = inode();
    assert_eq!(refresher.ask(), "unchanged");
    assert_eq!(inode(), before, "the file was written anew");

    let mut spoilt = packed(b"imgpullr", b"first").bytes;
    spoilt[16 + 15] ^= 1;
    for bytes in [&spoilt, &vec![0; 512]] {
        write(&target, bytes);
        assert_eq!(refresher.ask(), "failed");
        holds(b"first");
    }

    // A second disk with the magic comes later, and the first still is the one.
    write(&target, &packed(b"imgpullr", b"first").bytes);
    write(&second_disk, &packed(b"imgpullr", b"other").bytes);
    assert_eq!(refresher.ask(), "unchanged");
    holds(b"first");
    write(&target, &packed(b"imgpullr", b"second").bytes);
    assert_eq!(refresher.ask(), "replaced");
    holds(b"second");

    write(&target, &packed(b"imgpullr", b"").bytes);
    assert_eq!(refresher.ask(), "removed");
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
    let output = machine.program(&["refresh", "--listen", "unix:/nowhere/at"], "022", 24 << 20);
    assert_eq!(output.status.code(), Some(65));
    assert_eq!(placed(&machine), before);
}
