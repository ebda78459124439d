//! A node: a VM with an emulated KVM, in which the vectors of Kata's runtimes run as they are.
//!
//! QEMU 10 without KVM emulates AMD's SVM. So the VM has `/dev/kvm`, vhost and taps, and in it the
//! wrapper starts a second QEMU for each sandbox. What runs in the node is the program `sandboxes`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::fixture::{Fixture, Kernel, built, source};
use crate::initramfs::Initramfs;
use crate::process::{POLL, bound_command, run_checked, tail};
use crate::vector::{self, Vector};
use crate::{Background, Program, Report, Scratch, program};

/// What stands at the beginning of a sandbox's root device.
pub const ROOT_CONTENT: &str = "the root image";

/// What a sandbox reads from the file system that it shares with the node.
pub const SHARED_CONTENT: &str = "a file of the node";

/// How long a sandbox may take in the node: 10 to 40 s, and 135 s where others share the machine.
pub const SANDBOX_LIMIT: Duration = Duration::from_secs(300);

/// How long nothing may come from the node; more than a sandbox that hangs takes.
const SILENCE_LIMIT: Duration = Duration::from_secs(400);

/// Bytes of a disk image in the node, at least as many as each vector says.
const IMAGE_BYTES: usize = 8 << 20;

/// How a sandbox in the node ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    /// The vector's name.
    pub vector: String,
    /// 1, or 2 after a first attempt that did not get to its end.
    pub attempt: u32,
    /// From the start of the wrapper to the end of its QEMU.
    pub seconds: f64,
    /// The exit status, or why there is none.
    pub status: String,
    /// What the wrapper and QEMU wrote to standard error.
    pub stderr: String,
    /// What the sandbox wrote to the vector's console.
    pub console: String,
}

impl End {
    /// What the sandbox said.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::parse(self.console.clone(), Duration::from_secs_f64(self.seconds))
    }
}

/// Boots a node and starts `vectors` in it, one after the other, through the wrapper with the
/// node's `document`. `ended` gets the end of each attempt as it comes.
///
/// # Errors
///
/// Where a part is missing, or the node does not get to its end.
pub fn run(vectors: &[Vector], document: &str, mut ended: impl FnMut(End)) -> Result<()> {
    let program = qemu("bin/qemu-system-x86_64");
    ensure!(program.exists(), "{} is missing: run qemu-fixtures/qemu first", program.display());
    let scratch = Scratch::new()?;
    let fixture = Fixture::with_modules(Kernel::Backports, &list("modules")?)?;
    let initrd = initramfs(&scratch, &fixture, vectors, document)?;
    let initrd = scratch.write("node.cpio", initrd)?;
    let mut command = bound_command(program);
    command.arg("-L").arg(qemu("share/qemu"));
    command.arg("-L").arg(qemu("share/seabios"));
    command.args("-nodefaults -no-user-config -no-reboot -display none -serial stdio".split(' '));
    command.args("-machine q35 -accel tcg,thread=multi,tb-size=1024 -cpu max -smp 2".split(' '));
    // Not the kernel's own words: they would come in the middle of a line of ours.
    command.args(["-m", "5G", "-append", "console=ttyS0 panic=-1 loglevel=1"]);
    command.arg("-kernel").arg(&fixture.kernel).arg("-initrd").arg(initrd);
    let mut node = Background::spawn("node", command, &scratch)?;

    let (mut told, mut length, mut changed) = (0, 0, Instant::now());
    loop {
        let status = node.ended()?;
        let output = node.output();
        if output.len() > length {
            (length, changed) = (output.len(), Instant::now());
        }
        let complete = output.rfind('\n').map_or("", |end| &output[..end]);
        let report = Report::parse(complete.to_owned(), changed.elapsed());
        for line in report.values("end").skip(told) {
            told += 1;
            let end = serde_json::from_str(line);
            ended(end.with_context(|| format!("the node said {line:?}"))?);
        }
        if let Some(status) = status {
            ensure!(report.is_complete(), "the node ended with {status}: {}", tail(&output));
            return Ok(());
        }
        ensure!(
            changed.elapsed() < SILENCE_LIMIT,
            "the node was silent for {} s: {}",
            SILENCE_LIMIT.as_secs(),
            tail(&output)
        );
        // The node needs the processors more.
        sleep(POLL * 10);
    }
}

/// What the node boots: this project's wrapper, QEMU, and what the vectors name.
fn initramfs(
    scratch: &Scratch,
    fixture: &Fixture,
    vectors: &[Vector],
    document: &str,
) -> Result<Vec<u8>> {
    let mut archive = Initramfs::shell(&fixture.modules)?;
    archive.file("job/parameters", b"")?;
    archive.file("job/run", list("job")?.as_bytes())?;
    archive.program(Program::KataConfigdevQemu)?;
    archive.executable("bin/sandboxes", &program("sandboxes")?)?;
    archive.executable("node/vmlinuz", &fixture.kernel)?;
    archive.file("node/initrd", &sandbox_initramfs()?)?;
    archive.file("node/document.toml", document.as_bytes())?;
    archive.file("node/root.img", &root_image())?;
    let initdata = fs::read(vector::folder().join("initdata-sha256.toml"))?;
    let initdata = config_image::encode(config_image::Magic::INITDATA, &initdata)?;
    archive.file("node/initdata.img", &initdata)?;
    archive.file("shared/file", SHARED_CONTENT.as_bytes())?;
    for vector in vectors {
        let mut text = vector.arguments.join("\n");
        text.push('\n');
        archive.file(&format!("node/vectors/{}", vector.name), text.as_bytes())?;
    }
    let names = vectors.iter().map(|vector| format!("{}.fds", vector.name));
    for name in names.chain(["environment".into(), "go-environment".into()]) {
        let content = fs::read(vector::folder().join(&name))?;
        archive.file(&format!("node/vectors/{name}"), &content)?;
    }

    let virtiofsd = Path::new("/usr/lib/qemu/virtiofsd");
    for (name, from) in [
        ("usr/bin/qemu-system-x86_64", qemu("bin/qemu-system-x86_64")),
        ("bin/virtiofsd", virtiofsd.to_owned()),
    ] {
        archive.executable(name, &from)?;
    }
    for name in ["qemu/kvmvapic.bin", "qemu/linuxboot_dma.bin", "seabios/bios-256k.bin"] {
        let name = format!("share/{name}");
        archive.executable(&format!("usr/{name}"), &qemu(&name))?;
    }
    let rom = "usr/lib/ipxe/qemu/efi-virtio.rom";
    archive.executable(rom, &Path::new("/").join(rom))?;
    for library in libraries(scratch, &[&qemu("bin/qemu-system-x86_64"), virtiofsd])? {
        let name = library.strip_prefix("/")?.to_string_lossy().into_owned();
        archive.executable(&name, &library)?;
    }
    archive.finish()
}

/// What every sandbox boots, as its vector's initrd or in the place of a root image's kernel
/// modules: Debian's kernel has the disks' drivers as modules.
fn sandbox_initramfs() -> Result<Vec<u8>> {
    let fixture = Fixture::with_modules(Kernel::Backports, &list("sandbox-modules")?)?;
    let mut archive = Initramfs::shell(&fixture.modules)?;
    archive.file("job/parameters", b"")?;
    archive.file("job/run", list("sandbox-job")?.as_bytes())?;
    archive.finish()
}

/// A disk with one partition, which begins with [`ROOT_CONTENT`].
fn root_image() -> Vec<u8> {
    const START: usize = 2048;
    const SECTORS: u32 = 2048;
    let mut image = vec![0; IMAGE_BYTES];
    // The first of four entries: type Linux, first sector and length in sectors.
    image[446 + 4] = 0x83;
    image[446 + 8..446 + 12].copy_from_slice(&(START as u32).to_le_bytes());
    image[446 + 12..446 + 16].copy_from_slice(&SECTORS.to_le_bytes());
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    let content = format!("{ROOT_CONTENT}\n");
    image[START * 512..START * 512 + content.len()].copy_from_slice(content.as_bytes());
    image
}

/// The libraries that the loader takes for `programs`, itself included.
fn libraries(scratch: &Scratch, programs: &[&Path]) -> Result<Vec<PathBuf>> {
    let output = run_checked(scratch, "ldd", programs)?;
    let text = String::from_utf8(output.stdout)?;
    let mut libraries: Vec<PathBuf> = text
        .lines()
        .filter(|line| !line.ends_with(':'))
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(Into::into)
        .collect();
    libraries.sort();
    libraries.dedup();
    Ok(libraries)
}

/// A file of Debian's backport of QEMU, below `usr`.
///
/// Made by `qemu-fixtures/qemu`.
fn qemu(name: &str) -> PathBuf {
    built("qemu/usr").join(name)
}

/// A file of `qemu-fixtures/node`.
fn list(name: &str) -> Result<String> {
    let path = source("node").join(name);
    fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}
