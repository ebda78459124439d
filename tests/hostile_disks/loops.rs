//! Real block devices over files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::makedev;
use tempfile::TempDir;

use crate::hostile_disks::row::{Disk, Shape};

/// A loop device and its file, both gone when dropped.
pub struct Loop {
    name: String,
    file: PathBuf,
    writes_before: u64,
    _directory: TempDir,
}

impl Loop {
    /// Attaches `disk`; `None` where this machine has no loop devices.
    pub fn attach(disk: &Disk, read_only: bool) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("disk");
        fs::write(&file, &disk.bytes).unwrap();
        let name = losetup(&file, read_only)?;
        if let Shape::UnreadableFrom(byte) = disk.shape {
            // The kernel answers reads behind the end of the file with an error; its device keeps
            // its size.
            File::options().write(true).open(&file).and_then(|file| file.set_len(byte)).unwrap();
        }
        Some(Self {
            // The kernel goes on counting where the device was somebody else's before.
            writes_before: writes(&name),
            name,
            file,
            _directory: directory,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file behind it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The kernel's own node.
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    pub fn sectors(&self) -> usize {
        self.attribute("size").parse().unwrap()
    }

    /// `MAJOR:MINOR`.
    pub fn number(&self) -> String {
        self.attribute("dev")
    }

    pub fn device_number(&self) -> u64 {
        let number = self.number();
        let (major, minor) = number.split_once(':').unwrap();
        makedev(major.parse().unwrap(), minor.parse().unwrap())
    }

    /// Whether anybody wrote to it.
    pub fn was_written(&self) -> bool {
        writes(&self.name) != self.writes_before
    }

    fn attribute(&self, name: &str) -> String {
        attribute(&self.name, name)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(self.node()).status();
    }
}

/// How many writes the device got, ever.
fn writes(name: &str) -> u64 {
    let counters = attribute(name, "stat");
    counters.split_whitespace().nth(4).unwrap().parse().unwrap()
}

fn attribute(device: &str, name: &str) -> String {
    let path = Path::new("/sys/class/block").join(device).join(name);
    fs::read_to_string(path).unwrap().trim_end().to_owned()
}

fn losetup(file: &Path, read_only: bool) -> Option<String> {
    let output = Command::new("losetup")
        .args(["--find", "--show"])
        .args(read_only.then_some("--read-only"))
        .arg(file)
        .output()
        .ok()?;
    let node = String::from_utf8(output.stdout).ok()?;
    let name = node.trim().strip_prefix("/dev/")?;
    output.status.success().then(|| name.to_owned())
}

/// Whether there are loop devices and nodes for them; panics where every test has to run.
pub fn available() -> bool {
    let probe = Loop::attach(&Disk::new(vec![0; 512]), true);
    if probe.is_none() {
        let reason = "losetup cannot attach a loop device here (needs root and /dev/loop-control)";
        assert!(
            std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(),
            "every test has to run, but {reason}"
        );
        eprintln!("skipped: {reason}");
    }
    probe.is_some()
}
