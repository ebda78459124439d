//! Disks that the host rewrites while the program reads them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::hostile_disks::loops::{self, Loop};
use crate::hostile_disks::machine::Machine;
use crate::hostile_disks::row::{Disk, Expected, Files};
use crate::hostile_disks::table::{configured, packed};
use crate::hostile_disks::verdict::{Findings, compare, take_note};

const ROUNDS: u32 = 200;

/// Two disks of one size that take turns, and what becomes of each.
pub struct Pair {
    pub images: [Vec<u8>; 2],
    pub outcomes: [Expected; 2],
}

impl Pair {
    fn new(disks: [Disk; 2], outcomes: [Expected; 2]) -> Self {
        let mut images = disks.map(|disk| disk.bytes);
        let longer = images.iter().map(Vec::len).max().unwrap_or_default();
        for image in &mut images {
            image.resize(longer, 0);
        }
        Self { images, outcomes }
    }

    pub fn configurations() -> Self {
        // Lengths differ, so that a header of one before the stream of the other is no image
        // either.
        let documents = [vec![b'a'; 50_000], vec![b'b'; 60_000]];
        let disks = documents.each_ref().map(|text| packed(b"imgpullr", text));
        Self::new(disks, documents.map(|text| configured(&text)))
    }

    fn initdatas() -> Self {
        let values = ["a".repeat(50_000), "b".repeat(60_000)];
        let disks = values.each_ref().map(|value| {
            let head = "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n";
            packed(b"initdata", format!("{head}value = \"{value}\"\n").as_bytes())
        });
        let placed = |value: String| Files::from([("value".to_owned(), value.into_bytes())]);
        Self::new(disks, values.map(|value| Expected::Placed(placed(value))))
    }

    pub fn disk(&self) -> Disk {
        Disk::new(self.images[0].clone())
    }

    /// Which of the two is there; `None` if it was refused. A mix is an error.
    pub fn found(&self, files: &Files) -> Result<Option<usize>, String> {
        for (number, outcome) in self.outcomes.iter().enumerate() {
            if compare(outcome, files).is_ok() {
                return Ok(Some(number));
            }
        }
        compare(&Expected::refused(&["failed to "]), files).map(|()| None)
    }
}

/// Writes one image after the other until told to stop, and leaves each there for a while: some
/// rounds find it whole.
pub fn rewrite(path: &Path, images: &[Vec<u8>; 2], stop: &AtomicBool) {
    // Small pieces, so that a reader finds every kind of mix.
    const PIECE: usize = 512;
    let file = File::options().write(true).open(path).unwrap();
    for image in images.iter().cycle() {
        for (number, piece) in image.chunks(PIECE).enumerate() {
            file.write_all_at(piece, (number * PIECE) as u64).unwrap();
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Runs the program many times while `targets` are rewritten, and counts what was found.
fn race(mut machine: Machine, targets: [&Path; 2], arguments: &[&str]) {
    let pairs = [Pair::initdatas(), Pair::configurations()];
    machine.disks_change();
    let stop = AtomicBool::new(false);
    let (mut placed, mut refused) = ([0; 2], [0; 2]);
    let mut round = || -> Findings {
        let mut results = machine.results(arguments, "022", 24 << 20)?;
        let initdata = pairs[0].found(&results.measured)?;
        let refused_initdata = match initdata {
            Some(_) => Expected::Absent,
            None => Expected::refused(&[]),
        };
        take_note(&refused_initdata, &mut results.insecure)?;
        let found = [initdata, pairs[1].found(&results.insecure)?];
        let code = if initdata.is_none() { 65 } else { 0 };
        if results.exit_code != Some(code) {
            return Err(format!("exit code {:?}\n{}", results.exit_code, results.log));
        }
        for (number, found) in found.into_iter().enumerate() {
            match found {
                Some(_) => placed[number] += 1,
                None => refused[number] += 1,
            }
        }
        Ok(())
    };
    let outcome = std::thread::scope(|scope| {
        for (pair, target) in pairs.iter().zip(targets) {
            scope.spawn(|| rewrite(target, &pair.images, &stop));
        }
        let outcome = (0..ROUNDS).try_for_each(|_| round());
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    outcome.unwrap();
    println!("initdata, configuration: placed {placed:?}, refused {refused:?}");
}

#[test]
fn files_that_change() {
    let machine = Machine::new();
    let disks = [Pair::initdatas().disk(), Pair::configurations().disk()];
    machine.files(&disks);
    let [one, two] = ["dev/vdaaa", "dev/vdaab"].map(|name| machine.path(name));
    race(machine, [&one, &two], &[]);
}

#[test]
fn privileged_loop_devices_that_change() {
    if !loops::available() {
        return;
    }
    // The host writes behind a read-only device's back; and another program writes to the device
    // itself.
    for read_only in [true, false] {
        let machine = Machine::new();
        let devices = [Pair::initdatas().disk(), Pair::configurations().disk()].map(|disk| {
            let device = Loop::attach(&disk, read_only).unwrap();
            machine.show(&disk, &device);
            device
        });
        let targets = devices
            .each_ref()
            .map(|device| if read_only { device.file().to_owned() } else { device.node() });
        race(machine, [&targets[0], &targets[1]], &["--include-loop"]);
    }
}
