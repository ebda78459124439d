//! A machine in a directory, the program run on it, and everything that must hold afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use vm_harness::Program;

use crate::hostile_disks::loops::Loop;
use crate::hostile_disks::row::{Disk, Files, Row, Shape};
use crate::hostile_disks::verdict::{Findings, check_log, compare, take_note, tells};

pub struct Machine {
    root: TempDir,
    /// Whether somebody else writes to the disks.
    disks_change: bool,
}

/// Second names of the nodes in `/dev`, since the program takes some away.
struct Nodes {
    kept: PathBuf,
    /// Those that begin with initdata's magic.
    initdata: BTreeSet<OsString>,
}

impl Nodes {
    /// Gives the nodes back that the program took away; which those were.
    fn restore(&self, dev: &Path) -> BTreeSet<OsString> {
        let mut removed = BTreeSet::new();
        for entry in fs::read_dir(&self.kept).unwrap() {
            let kept = entry.unwrap();
            let node = dev.join(kept.file_name());
            if fs::symlink_metadata(&node).is_err() {
                fs::hard_link(kept.path(), node).unwrap();
                removed.insert(kept.file_name());
            }
        }
        fs::remove_dir_all(&self.kept).unwrap();
        fs::remove_dir_all(dev.join(".initdata")).unwrap();
        removed
    }
}

/// What a run left behind.
pub struct Results {
    pub exit_code: Option<i32>,
    pub measured: Files,
    pub insecure: Files,
    pub log: String,
}

impl Machine {
    /// Without disks and without a TEE.
    pub fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap(), disks_change: false };
        for directory in ["sys/block", "sys/class/block", "sys/dev/block", "dev", "proc", "run"] {
            fs::create_dir_all(machine.path(directory)).unwrap();
        }
        let parameter = "quiet configdev.allow_unverified_initdata=1\n";
        fs::write(machine.path("proc/cmdline"), parameter).unwrap();
        fs::write(machine.path("proc/cpuinfo"), "flags\t\t: fpu vme\n").unwrap();
        machine
    }

    /// With the row's disks, played by plain files.
    pub fn of_files(row: &Row) -> Self {
        let machine = Self::new();
        machine.files(&row.disks);
        machine
    }

    /// Adds disks played by plain files: `vdaaa`, `vdaab` and so on.
    pub fn files(&self, disks: &[Disk]) {
        for (number, disk) in disks.iter().enumerate() {
            let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
            let name: String = [number / 676, number / 26, number].map(letter).iter().collect();
            let name = format!("vd{name}");
            let hardware = "pci0000:00/0000:00:05.0/virtio1";
            let sectors = disk.bytes.len().div_ceil(512);
            self.sysfs(hardware, &name, disk, sectors, None);
            let node = self.path("dev").join(&name);
            match disk.shape {
                Shape::NoNode | Shape::Hidden => {}
                Shape::Pipe => mknodat(CWD, node, FileType::Fifo, Mode::RWXU, 0).unwrap(),
                Shape::Directory => fs::create_dir(node).unwrap(),
                _ => fs::write(node, &disk.bytes).unwrap(),
            }
        }
    }

    /// Adds a loop device.
    pub fn show(&self, disk: &Disk, device: &Loop) {
        let number = Some(device.number());
        self.sysfs("virtual", device.name(), disk, device.sectors(), number);
        let mode = Mode::RUSR | Mode::WUSR;
        let node = self.path("dev").join(device.name());
        mknodat(CWD, node, FileType::BlockDevice, mode, device.device_number()).unwrap();
    }

    /// What the kernel says of a disk whose hardware is `parent`, in the places where it says it.
    fn sysfs(&self, parent: &str, name: &str, disk: &Disk, sectors: usize, number: Option<String>) {
        let place = match disk.shape {
            Shape::Virtual => format!("devices/virtual/block/{name}"),
            Shape::Partition => format!("devices/{parent}/block/whole/{name}"),
            _ => format!("devices/{parent}/block/{name}"),
        };
        let sys = self.path("sys");
        let directory = sys.join(&place);
        fs::create_dir_all(&directory).unwrap();
        let sectors = match disk.shape {
            Shape::Claims(sectors) => sectors,
            _ => sectors as u64,
        };
        let flag = |shape| u8::from(disk.shape == shape).to_string();
        let mut attributes = vec![
            ("size", sectors.to_string()),
            ("removable", flag(Shape::Removable)),
            ("hidden", flag(Shape::Hidden)),
            ("ro", "1".to_owned()),
        ];
        symlink(format!("../../{place}"), sys.join("class/block").join(name)).unwrap();
        if disk.shape == Shape::Partition {
            attributes.push(("partition", "1".to_owned()));
        } else {
            symlink(format!("../{place}"), sys.join("block").join(name)).unwrap();
        }
        if let Some(number) = number {
            let by_number = sys.join("dev/block").join(&number);
            symlink(format!("../../{place}"), by_number).unwrap();
            attributes.push(("dev", number));
        }
        for (attribute, value) in attributes {
            fs::write(directory.join(attribute), format!("{value}\n")).unwrap();
        }
    }

    /// Somebody else writes to the disks from now on.
    pub fn disks_change(&mut self) {
        self.disks_change = true;
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// What an earlier run could have left.
    pub fn leave_results(&self) {
        for (directory, names) in [
            ("measured-cfg", ["policy.rego", "old"]),
            ("insecure-cfg", ["imagepuller.toml", "imagepuller.error"]),
        ] {
            let directory = self.path("run").join(directory);
            fs::create_dir(&directory).unwrap();
            for name in names {
                fs::write(directory.join(name), "left by an earlier run").unwrap();
            }
        }
    }

    /// Runs the program with `umask` and at most `address_space` bytes to map.
    pub fn program(&self, arguments: &[&str], umask: &str, address_space: u64) -> Output {
        self.command(arguments, umask, address_space).output().unwrap()
    }

    /// The same, not started yet.
    pub fn command(&self, arguments: &[&str], umask: &str, address_space: u64) -> Command {
        // `timeout` only so that a hang ends.
        let mut command = Command::new("timeout");
        command
            .args(["--signal=KILL", "120", "sh", "-c"])
            .args(["umask \"$0\"; exec \"$@\"", umask, "prlimit"])
            .arg(format!("--as={address_space}"))
            .arg(Program::InitdataProcessor.path().unwrap())
            .args(arguments)
            .arg("--root")
            .arg(self.root.path());
        command
    }

    /// Runs the program on `row`'s disks, which this machine has, and checks everything that the
    /// table promises.
    pub fn check(&self, row: &Row, arguments: &[&str], umask: &str) -> Findings {
        let mut results = self
            .results(arguments, umask, row.address_space())
            .map_err(|text| format!("{}: {text}", row.name))?;
        let exit_code = match results.exit_code {
            code if code == Some(row.exit_code()) => Ok(()),
            code => Err(format!("exit code {code:?}")),
        };
        let failures: Vec<String> = [
            exit_code,
            tells(&results.log, row),
            compare(&row.initdata, &results.measured),
            take_note(&row.initdata, &mut results.insecure),
            compare(&row.configuration, &results.insecure),
        ]
        .into_iter()
        .filter_map(Result::err)
        .collect();
        if failures.is_empty() {
            return Ok(());
        }
        let text = failures.join("\n  ");
        Err(format!("{}:\n  {text}\n{}", row.name, results.log))
    }

    /// Runs the program and checks what must hold whatever the disks are.
    pub fn results(
        &self,
        arguments: &[&str],
        umask: &str,
        address_space: u64,
    ) -> Result<Results, String> {
        let before = self.others();
        let nodes = self.keep_nodes();
        let arguments = [&["--verbose"], arguments].concat();
        let output = self.program(&arguments, umask, address_space);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let findings = |text: String| format!("{}, {text}\n{log}", output.status);
        if !output.stdout.is_empty() {
            return Err(findings("wrote to standard output".to_owned()));
        }
        let removed = nodes.restore(&self.path("dev"));
        if !self.disks_change && removed != nodes.initdata {
            return Err(findings(format!("took the nodes {removed:?} away")));
        }
        if self.others() != before {
            return Err(findings("changed something outside of run".to_owned()));
        }
        let run = files(&self.path("run"));
        if run.keys().ne([
            ".measured-cfg",
            "confidential-containers",
            "initdata-processor",
            "insecure-cfg",
            "measured-cfg",
        ]) {
            return Err(findings(format!("run holds {:?}", run.keys())));
        }
        // The name is a link to the one directory that is left of two.
        let home = files(&self.path("run/.measured-cfg"));
        let link = fs::read_link(self.path("run/measured-cfg"));
        if home.keys().ne(["current"]) || link.ok() != Some(".measured-cfg/current".into()) {
            return Err(findings(format!("run/.measured-cfg holds {:?}", home.keys())));
        }
        let read = |name, modes| read(&self.path("run").join(name), modes).map_err(findings);
        let measured = read("measured-cfg", (0o755, 0o644))?;
        let insecure = read("insecure-cfg", (0o700, 0o600))?;
        check_log(&output.stderr).map_err(findings)?;
        Ok(Results { exit_code: output.status.code(), measured, insecure, log })
    }

    fn keep_nodes(&self) -> Nodes {
        let kept = self.path("kept");
        fs::create_dir(&kept).unwrap();
        let mut initdata = BTreeSet::new();
        for entry in fs::read_dir(self.path("dev")).unwrap() {
            let node = entry.unwrap();
            let kind = node.file_type().unwrap();
            if kind.is_dir() {
                continue;
            }
            fs::hard_link(node.path(), kept.join(node.file_name())).unwrap();
            if !kind.is_file() && !kind.is_block_device() {
                continue;
            }
            // As long as a header: less is no image.
            let mut first = [0; 16];
            let read = File::open(node.path()).and_then(|node| node.read_exact_at(&mut first, 0));
            if read.is_ok() && first.starts_with(b"initdata") {
                initdata.insert(node.file_name());
            }
        }
        Nodes { kept, initdata }
    }

    /// Everything outside of `run`, with its content's length and the time of its last change.
    fn others(&self) -> BTreeMap<PathBuf, (u64, u32, std::time::SystemTime)> {
        let mut found = BTreeMap::new();
        let mut directories = vec![self.root.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path == self.path("run") || self.disks_change && path == self.path("dev") {
                    continue;
                }
                let metadata = path.symlink_metadata().unwrap();
                if metadata.is_dir() {
                    directories.push(path.clone());
                }
                // It changed where nodes were removed and given back.
                if path == self.path("dev") {
                    continue;
                }
                let changed = metadata.modified().unwrap();
                let mode = metadata.permissions().mode();
                found.insert(path, (metadata.len(), mode, changed));
            }
        }
        found
    }
}

/// The files of a directory, where it and they have these modes.
fn read(directory: &Path, (directory_mode, file_mode): (u32, u32)) -> Result<Files, String> {
    let directory = &directory.canonicalize().unwrap();
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode();
    if !directory.is_dir() || mode(directory) & 0o7777 != directory_mode {
        return Err(format!("no directory of mode {directory_mode:o}"));
    }
    let files = files(directory);
    match files.keys().find(|name| mode(&directory.join(name)) != 0o100_000 | file_mode) {
        Some(name) => Err(format!("{name} is no file of mode {file_mode:o}")),
        None => Ok(files),
    }
}

/// Names and, of plain files, contents.
pub fn files(directory: &Path) -> Files {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap_or_default())
        })
        .collect()
}
