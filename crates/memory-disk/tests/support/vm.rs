//! A small guest with the disk, in QEMU without acceleration.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use cpio::newc;
use tempfile::TempDir;
use vm_harness::fixture::Fixture;

use super::{Disk, Process};

/// PID 1 of the guest: loads the modules, runs the job, and turns the machine off.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </modules/order
mark() { echo "@@ $*"; }
mark booted
. /job
mark done
poweroff -f
"#;

/// How a VM differs from the plain one.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// QEMU's object behind the guest's RAM.
    pub memory: &'static str,
    /// More properties of the disk.
    pub device: &'static str,
    /// More kernel parameters.
    pub kernel: &'static str,
}

/// RAM that is shared, as it has to be.
pub const SHARED: Shape = Shape { memory: "memory-backend-memfd,share=on", device: "", kernel: "" };

/// A running guest.
#[derive(Debug)]
pub struct Guest {
    qemu: Process,
    _folder: TempDir,
}

impl Guest {
    /// Boots a guest with `disk` that runs the shell script `job`. Nothing where the kernel was not
    /// fetched; that is said.
    pub fn boot(disk: &mut Disk, shape: Shape, job: &str) -> Option<Self> {
        let fixture = match Fixture::find() {
            Ok(fixture) => fixture,
            Err(error) => {
                let must_run = std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_some();
                assert!(!must_run, "{error:#}");
                eprintln!("skipped: {error:#}");
                return None;
            }
        };
        let folder = TempDir::new().expect("a folder");
        disk.wait_for("info: sandboxed");
        let initrd = folder.path().join("initrd");
        fs::write(&initrd, initramfs(fixture, job)).expect("an initramfs");
        // On a busy machine an emulated timer is late, and Linux gives up where it tests it.
        let append = "console=ttyS0 quiet panic=-1 no_timer_check ".to_owned() + shape.kernel;
        let chardev = format!("socket,id=disk,path={}", disk.socket().display());
        let device = format!("vhost-user-blk-pci,chardev=disk{}", shape.device);
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(
                "-nodefaults -no-user-config -no-reboot -display none -serial stdio -monitor none"
                    .split(' '),
            )
            .args("-machine q35,accel=tcg,memory-backend=ram -cpu max -smp 2 -m 256".split(' '))
            .args(["-object", &format!("{},id=ram,size=256M", shape.memory)])
            .arg("-kernel")
            .arg(&fixture.kernel)
            .arg("-initrd")
            .arg(initrd)
            .args(["-append", &append])
            .args(["-chardev", &chardev])
            .args(["-device", &device]);
        Some(Self { qemu: Process::start("qemu", folder.path(), command), _folder: folder })
    }

    /// Waits until the console has `text`, and gives all of it.
    pub fn wait_for(&mut self, text: &str) -> String {
        self.qemu.wait_for(text)
    }

    /// Waits for the machine to be turned off.
    pub fn ended(&mut self) -> String {
        let console = self.qemu.ended();
        assert!(console.contains("@@ done"), "{console}");
        console
    }

    /// The console until now.
    pub fn output(&self) -> String {
        self.qemu.output()
    }

    pub fn kill(&mut self) {
        self.qemu.kill();
    }
}

/// The values of the lines `@@ NAME VALUE`.
pub fn marked<'a>(console: &'a str, name: &str) -> Vec<&'a str> {
    console
        .lines()
        .filter_map(|line| line.trim_end().split_once("@@ ")?.1.split_once(' '))
        .filter(|(word, _)| *word == name)
        .map(|(_, value)| value)
        .collect()
}

fn initramfs(fixture: &Fixture, job: &str) -> Vec<u8> {
    const FOLDER: u32 = 0o040_755;
    const PROGRAM: u32 = 0o100_755;
    let mut archive = Vec::new();
    let mut inode = 0;
    let mut add = |name: &str, mode: u32, content: &[u8]| {
        inode += 1;
        let mut entry = newc::Builder::new(name)
            .ino(inode)
            .mode(mode)
            .nlink(1)
            .write(&mut archive, content.len() as u32);
        entry.write_all(content).expect("memory");
        entry.finish().expect("memory");
    };
    for folder in ["bin", "dev", "modules", "proc", "sys"] {
        add(folder, FOLDER, b"");
    }
    let read = |path: &Path| fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    add("bin/busybox", PROGRAM, &read(Path::new("/bin/busybox")));
    add("init", PROGRAM, INIT.as_bytes());
    add("job", PROGRAM, job.as_bytes());
    let mut order = String::new();
    for module in &fixture.modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        add(&format!("modules/{name}"), PROGRAM, &read(module));
        order += &format!("{name}\n");
    }
    add("modules/order", PROGRAM, order.as_bytes());
    newc::trailer(archive).expect("memory")
}
