//! Starts recorded sandboxes one after the other: `sandboxes DIR`, in the VM of `vm_harness::node`.
//!
//! DIR has the vectors and what stands for the files that they name. Each sandbox gets the
//! descriptors, variables and files of its recording, and is told as a line `@@ UPTIME end JSON`.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{Mode, OFlags};
use vm_harness::Scratch;
use vm_harness::node::{End, SANDBOX_LIMIT};
use vm_harness::process::POLL;
use vm_harness::vector::{Descriptor, Vector};

/// How often a sandbox is tried: the emulated SVM is not perfect.
const ATTEMPTS: u32 = 2;

fn main() -> Result<()> {
    let node: PathBuf = std::env::args_os().nth(1).context("usage: sandboxes DIR")?.into();
    for vector in Vector::all(&node.join("vectors"))? {
        for attempt in 1..=ATTEMPTS {
            let end = match run(&node, &vector, attempt) {
                Ok(end) => end,
                Err(error) => End {
                    vector: vector.name.clone(),
                    attempt,
                    seconds: 0.0,
                    status: format!("{error:#}"),
                    stderr: String::new(),
                    console: String::new(),
                },
            };
            let uptime = fs::read_to_string("/proc/uptime")?;
            let uptime = uptime.split(' ').next().unwrap_or_default();
            println!("@@ {uptime} end {}", serde_json::to_string(&end)?);
            if end.report().is_complete() {
                break;
            }
        }
    }
    Ok(())
}

/// Starts one sandbox as its runtime did and waits for its end.
fn run(node: &Path, vector: &Vector, attempt: u32) -> Result<End> {
    let scratch = Scratch::new()?;
    let document = scratch.write("document.toml", fs::read(node.join("document.toml"))?)?;
    let settings = format!("qemu = \"/usr/bin/qemu-system-x86_64\"\ndocument = {document:?}\n");
    let settings = scratch.write("config.toml", settings)?;
    let bundle = scratch.path().join("bundle");
    fs::create_dir(&bundle)?;
    fs::write(bundle.join("config.json"), r#"{"ociVersion":"1.1.0","annotations":{}}"#)?;
    let paths = Paths::of(vector)?;
    paths.prepare(node)?;
    let _shared = paths.share()?;

    let mut command = Command::new("/bin/kata-configdev-qemu");
    command
        .args(&vector.arguments)
        .env_clear()
        .envs(vector.environment()?)
        .env("KATA_CONFIGDEV_CONFIG", settings)
        .current_dir(&bundle)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let inherited = vector.descriptors.iter().filter(|one| one.number > 2);
    let mappings = inherited
        .map(|one| {
            let parent_fd = open(vector, one, &scratch);
            let parent_fd = parent_fd.with_context(|| format!("failed to open {one:?}"))?;
            let child_fd = one.number;
            Ok(FdMapping { parent_fd, child_fd })
        })
        .collect::<Result<_>>()?;
    command.fd_mappings(mappings)?;
    let started = Instant::now();
    let mut child = command.spawn()?;
    // Its copies of the descriptors.
    drop(command);
    let console = listen(&mut child, &paths.console, started)?;
    if child.try_wait()?.is_none() {
        child.kill()?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let output = child.wait_with_output()?;
    Ok(End {
        vector: vector.name.clone(),
        attempt,
        seconds,
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        console,
    })
}

/// Reads the console at `path` until `child` ends, or has taken too long.
fn listen(child: &mut Child, path: &Path, started: Instant) -> Result<String> {
    let mut heard = Vec::new();
    let mut stream = None;
    let mut buffer = [0; 4096];
    while started.elapsed() < SANDBOX_LIMIT {
        let ended = child.try_wait()?.is_some();
        match &mut stream {
            None => stream = UnixStream::connect(path).ok(),
            Some(stream) => {
                stream.set_read_timeout(Some(Duration::from_millis(100)))?;
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => {
                        heard.extend_from_slice(&buffer[..length]);
                        continue;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if ended {
            break;
        }
        sleep(POLL);
    }
    // QEMU closes the console shortly before it ends.
    while child.try_wait()?.is_none() && started.elapsed() < SANDBOX_LIMIT {
        sleep(POLL);
    }
    Ok(String::from_utf8_lossy(&heard).into_owned())
}

/// Opens what the runtime handed to its hypervisor.
fn open(vector: &Vector, one: &Descriptor, scratch: &Scratch) -> Result<OwnedFd> {
    if one.target.starts_with("socket") {
        let path = scratch.path().join(format!("{}.sock", one.number));
        return Ok(UnixListener::bind(path)?.into());
    }
    let flags = match one.flags {
        Some(flags) => OFlags::from_bits_retain(flags),
        None if one.target.starts_with("/dev/") => OFlags::RDWR,
        None => OFlags::RDONLY,
    };
    let file = rustix::fs::open(&one.target, flags | OFlags::CLOEXEC, Mode::empty())?;
    if one.target == "/dev/net/tun" {
        let name = match &one.interface {
            Some(name) => name,
            // Without a name in the list there is one interface, which the back end is named after.
            None => vector
                .values("-netdev")
                .find_map(|value| value.strip_prefix("tap,id=network-")?.split(',').next())
                .context("a tap without a -netdev")?,
        };
        let queues = vector.descriptors.iter();
        let queues = queues.filter(|other| other.interface.as_deref() == Some(name));
        linux_sys::tap::attach(&file, name, queues.count() > 1)?;
    }
    Ok(file)
}

/// The files and sockets that a vector names.
struct Paths {
    files: Vec<PathBuf>,
    console: PathBuf,
    /// Where QEMU looks for virtio-fs.
    shared: Option<PathBuf>,
}

impl Paths {
    fn of(vector: &Vector) -> Result<Self> {
        let mut files: Vec<PathBuf> = ["-kernel", "-initrd", "-pidfile"]
            .iter()
            .flat_map(|option| vector.values(option))
            .map(Into::into)
            .collect();
        for option in ["-drive", "-object"] {
            let words = vector.values(option).flat_map(|value| value.split(','));
            let paths = words
                .filter_map(|word| word.strip_prefix("file=").or(word.strip_prefix("mem-path=")));
            files.extend(paths.map(Into::into));
        }
        files.extend(vector.descriptors.iter().map(|one| one.target.clone().into()));
        files.retain(|path| path.is_absolute() && !path.starts_with("/dev"));
        let socket = |wanted: &dyn Fn(&str) -> bool| {
            let value = vector.values("-chardev").find(|value| wanted(value))?;
            value.split(',').find_map(|word| word.strip_prefix("path=").map(PathBuf::from))
        };
        let console = socket(&|value| value.contains("id=charconsole0,"));
        Ok(Self {
            files,
            console: console.context("the vector has no console")?,
            shared: socket(&|value| !value.contains("server=on")),
        })
    }

    /// Puts in place what is not there: by name, kernel, initrd, initdata, or a root image.
    fn prepare(&self, node: &Path) -> Result<()> {
        for path in self.files.iter().chain([&self.console]).chain(&self.shared) {
            fs::create_dir_all(path.parent().context("a path without a folder")?)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let content = match &*name {
                _ if name.starts_with("vmlinu") => "vmlinuz",
                "guest.cpio" | "kata-containers-initrd.img" => "initrd",
                "data.img" | "initdata.image" => "initdata.img",
                _ if name.ends_with(".img") => "root.img",
                _ => continue,
            };
            if !path.exists() {
                symlink(node.join(content), path)?;
            }
        }
        Ok(())
    }

    /// Starts the daemon of virtio-fs, which ends with its QEMU, where the vector has one.
    fn share(&self) -> Result<Option<Child>> {
        let Some(socket) = &self.shared else {
            return Ok(None);
        };
        // A first attempt may have left it.
        let _ = fs::remove_file(socket);
        let mut socket_option = std::ffi::OsString::from("--socket-path=");
        socket_option.push(socket);
        let mut daemon = Command::new("/bin/virtiofsd")
            .arg(socket_option)
            .args(["-o", "source=/shared,sandbox=chroot"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let started = Instant::now();
        while !socket.exists() {
            let waits = daemon.try_wait()?.is_none() && started.elapsed() < SANDBOX_LIMIT;
            ensure!(waits, "virtiofsd makes no socket");
            sleep(POLL);
        }
        Ok(Some(daemon))
    }
}
