//! A host that gives guests scratch disks, and does to them what a host can.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use end_to_end::scratch_settings;
use vm_harness::process::run_checked;
use vm_harness::{Kernel, Scenario, Site};

/// What every job begins with.
const SHELL: &str = r#"
serve() {
    imagepuller serve --listen unix:/run/s.socket --store /run/imagepuller --config /etc/doc.toml \
        --scratch "$@" 2>>/run/log &
    puller=$!
    until [ -S /run/s.socket ] || ! kill -0 $puller; do usleep 10000; done
    mark serving "$(grep -c '/run/imagepuller xfs' /proc/mounts)"
    cat /run/log
}
# pull NAME IMAGE
pull() {
    imagepuller request --socket /run/s.socket --timeout 600 "$2" "/run/$1" >/dev/null 2>/tmp/error
    mark "pull-$1" "exit $?"
    while read -r line; do mark "error-$1" "$line"; done </tmp/error
}
# Waits until the host has done the step of this name.
step() {
    echo "@@step $1"; echo "$1" | nc 10.0.2.2 $STEPS >/tmp/done
    [ "$(cat /tmp/done)" = "done $1" ] || mark lost "$1"
}
scratch_disk() {
    for disk in /dev/vd?; do [ "$(head -c 8 $disk)" != kcscrtch ] || echo $disk; done
}
plain_disk() { echo /dev/$(grep -lx plain /sys/block/*/serial | cut -d/ -f4); }
SMALL=$(cat /job/small 2>/dev/null)
"#;

/// A guest whose wrapper gives it a scratch disk of this size; the job loads all that it needs.
pub fn scenario(site: &Site, size: &str, job: &str) -> Result<Scenario> {
    let files = vec![("etc/doc.toml".to_owned(), site.document().into_bytes())];
    let directory = site.scratch().path();
    Ok(Scenario {
        kernel: Kernel::Backports,
        hosts: format!("10.0.2.2 {}\n", vm_harness::site::REGISTRY_NAME),
        settings: scratch_settings(directory, directory, size),
        tools: vec!["cryptsetup", "dmsetup", "mkfs.xfs"],
        modules: Some("modules-scratch"),
        files,
        ..Scenario::bare(format!("{SHELL}{job}"))
    })
}

/// QEMU's arguments for a writable disk of the image `file`, without any magic.
pub fn plain_disk(file: &Path) -> Vec<OsString> {
    let drive = format!("id=plain,file={},format=raw,if=none", file.display());
    [
        "-drive",
        &drive,
        "-device",
        "virtio-blk-pci,drive=plain,serial=plain",
    ]
    .map(OsString::from)
    .into()
}

/// Where a guest asks for what only its host can do.
pub struct Steps(TcpListener);

impl Steps {
    pub fn listen() -> Result<Self> {
        Ok(Self(TcpListener::bind("127.0.0.1:0")?))
    }

    /// The scenario, whose job knows where to ask.
    pub fn told_to(&self, scenario: &Scenario) -> Scenario {
        let port = self.0.local_addr().map_or(0, |address| address.port());
        let mut scenario = scenario.clone();
        scenario.job = scenario.job.map(|job| format!("STEPS={port}\n{job}"));
        scenario
    }

    /// Takes the step that a guest asks for.
    pub fn take(&self, step: impl FnOnce(&str) -> Result<()>) -> Result<()> {
        let (mut guest, _) = self.0.accept()?;
        let mut name = Vec::new();
        let mut byte = [0];
        while guest.read(&mut byte)? == 1 && byte != *b"\n" {
            name.push(byte[0]);
        }
        let name = String::from_utf8(name)?;
        step(&name).with_context(|| name.clone())?;
        Ok(writeln!(guest, "done {name}")?)
    }
}

/// The file without a name behind a VM's scratch disk, as its host has it.
#[derive(Debug)]
pub struct DiskFile(File);

impl DiskFile {
    /// That of the QEMU with this number.
    pub fn of(pid: u32) -> Result<Self> {
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            let path = entry?.path();
            let is_nameless = fs::metadata(&path).is_ok_and(|found| found.nlink() == 0);
            if !is_nameless || !fs::metadata(&path)?.is_file() {
                continue;
            }
            let file = File::options().read(true).write(true).open(&path);
            let mut magic = [0; 8];
            if let Ok(file) = file
                && file.read_exact_at(&mut magic, 0).is_ok()
                && magic == *b"kcscrtch"
            {
                return Ok(Self(file));
            }
        }
        anyhow::bail!("the VM has no scratch disk")
    }

    /// Its size in bytes, and how many of them the host has stored.
    pub fn size_and_use(&self) -> Result<(u64, u64)> {
        let metadata = self.0.metadata()?;
        Ok((metadata.len(), metadata.blocks() * 512))
    }

    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.0.metadata()?.len())?];
        self.0.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.0.write_all_at(bytes, at as u64)?)
    }
}

/// The sectors that differ between two states of a disk.
pub fn changed(one: &[u8], other: &[u8]) -> Result<Vec<usize>> {
    ensure!(one.len() == other.len(), "the disk changed its size");
    let sectors = one.chunks(SECTOR).zip(other.chunks(SECTOR)).enumerate();
    Ok(sectors
        .filter(|(_, (one, other))| one != other)
        .map(|(number, _)| number)
        .collect())
}

/// The bytes of one sector of the volume.
pub const SECTOR: usize = 4096;

/// A node whose disks are on a file system of their own.
#[derive(Debug)]
pub struct SmallNode(PathBuf);

impl SmallNode {
    pub fn new(site: &Site, bytes: u64) -> Result<Self> {
        let [image, place] = ["node.img", "node"].map(|name| site.scratch().path().join(name));
        File::create(&image)?.set_len(bytes)?;
        run_checked(
            site.scratch(),
            "mke2fs",
            ["-qFm0".as_ref(), image.as_os_str()],
        )?;
        fs::create_dir(&place)?;
        let mount = [
            "-o".as_ref(),
            "loop".as_ref(),
            image.as_os_str(),
            place.as_os_str(),
        ];
        run_checked(site.scratch(), "mount", mount)?;
        Ok(Self(place))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Leaves no room in it.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::create(self.0.join("full"))?;
        while file.write_all(&[1; 1 << 16]).is_ok() {}
        while file.write_all(&[1]).is_ok() {}
        Ok(())
    }
}

impl Drop for SmallNode {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}
