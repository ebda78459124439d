//! Namespaces and interfaces.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::OFlags;

/// The address of the far end. Both are of a network that RFC 5737 keeps for documentation.
pub const FAR_ADDRESS: &str = "192.0.2.1";

/// The address of the near end.
pub const NEAR_ADDRESS: &str = "192.0.2.2";

/// How many packets the kernel keeps for the relay while it does not run. What is beyond is lost
/// without being counted.
const KERNEL_QUEUE_PACKETS: &str = "20000";

/// One end: packets that are sent there are read from it, packets written to it arrive there.
#[derive(Debug)]
pub(crate) struct End(pub(crate) File);

impl End {
    /// An interface in the namespace of this thread.
    pub(crate) fn far() -> Result<Self> {
        Self::new("far", FAR_ADDRESS)
    }

    fn new(name: &str, address: &str) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open("/dev/net/tun")
            .context("failed to open /dev/net/tun")?;
        linux_sys::tap::attach_tun(&file, name)
            .with_context(|| format!("failed to make the interface {name}"))?;
        // An interface that has it sends solicitations of its own.
        set(&format!("ipv6/conf/{name}/disable_ipv6"), "1")?;
        // What one connection learnt about the line would make the next one quicker than the first.
        set("ipv4/tcp_no_metrics_save", "1")?;
        ip(&["address", "add", &format!("{address}/24"), "dev", name])?;
        let queue = ["txqueuelen", KERNEL_QUEUE_PACKETS];
        ip(&[&["link", "set", name, "mtu", "1500", "up"][..], &queue].concat())?;
        Ok(Self(file))
    }
}

/// The namespace at the near end.
#[derive(Debug)]
pub(crate) struct Near(File);

impl Near {
    /// Makes it, with the end of a line in it.
    pub(crate) fn new() -> Result<(Self, End)> {
        // A thread that has left its namespace is not used for anything else.
        thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("failed to make a network namespace")?;
            let namespace = File::open("/proc/thread-self/ns/net")?;
            ip(&["link", "set", "lo", "up"])?;
            Ok((Self(namespace), End::new("near", NEAR_ADDRESS)?))
        })
        .join()
        .map_err(|_| anyhow!("the thread that makes a namespace ended"))?
    }

    pub(crate) fn path(&self) -> PathBuf {
        let (process, file) = (std::process::id(), self.0.as_raw_fd());
        format!("/proc/{process}/fd/{file}").into()
    }
}

/// Writes a setting of this thread's network, if the kernel has it.
fn set(name: &str, value: &str) -> Result<()> {
    match fs::write(format!("/proc/sys/net/{name}"), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.with_context(|| format!("failed to set {name}")),
    }
}

/// Runs `ip` in the namespace of this thread.
fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("failed to start ip (Debian package iproute2)")?;
    ensure!(
        output.status.success(),
        "ip {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
