//! The stand-in for Kata's agent: does what the agent does, in its order, and says what it sees.
//!
//! As the agent of Kata 4.1 (`src/agent/src/main.rs`): mounts, where it is the first program;
//! vsock, without which it ends (this goes on, to say the rest); the policy, without which it ends;
//! guest components; one connection to the hub's socket, made at the start or never; the network,
//! which the host asks for; a pull over that connection. It starts the image's hub only in so far
//! as it takes its socket away, as the agent does before.
//!
//! `files`: mounts, disks, and what the processor left. `network`: over netlink. `pull`: guest
//! components, the connection, and one pull.

mod files;
mod network;
mod pull;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::json;
use vsock::{VMADDR_CID_ANY, VsockListener};

use crate::seen::{Agent, Driver, FOLDER, Job, MARK};

/// How long something that comes late is waited for, only to say how late.
const LATE: Duration = Duration::from_secs(15);

/// How often that is looked at.
const POLL: Duration = Duration::from_millis(100);

/// The agent's port, on which it listens before anything else that a host could ask for.
const PORT: u32 = 1024;

/// What carries the connections.
pub(crate) const TRANSPORT: &str = "vmw_vsock_virtio_transport";

/// Runs in the guest until the host ends the machine.
pub fn run() -> ExitCode {
    let job = fs::read(format!("/{FOLDER}/job.json"));
    let Some(job) = job.ok().and_then(|job| serde_json::from_slice(&job).ok()) else {
        eprintln!("configdev-smoke-agent: only for guests that configdev-smoke boots");
        return ExitCode::from(64);
    };
    let hides_results = files::mount_all();
    // What the kernel says would come in the middle of a line; the host has what it said before.
    let _ = fs::write("/proc/sys/kernel/printk", "1 4 1 7");
    let mut console = Console(OpenOptions::new().write(true).open("/dev/console").ok());
    if let Err(why) = work(&job, hides_results, &mut console) {
        console.say("ends", &why);
    }
    console.say("done", &true);
    // The host ends the machine; a first program that ends is a panic of the kernel.
    loop {
        sleep(Duration::from_secs(60));
    }
}

/// Everything in its order; an error is where the agent would end.
fn work(job: &Job, hides_results: bool, console: &mut Console) -> Result<(), String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (_listener, vsock) = listen();
    let kernel = files::line("/proc/sys/kernel/osrelease");
    let agent = Agent { pid: std::process::id(), kernel, clock_secs: now.as_secs() };
    console.say("agent", &agent);
    console.say("vsock", &vsock);
    console.say("run", &files::mounted_at("/run"));
    console.say("hides_results", &hides_results);
    console.say("disks", &files::disks());
    let policy = files::policy(console);
    console.say("files", &files::left());
    console.say("log", &files::kernel_log());
    policy?;
    let connection = pull::connect(&job.socket, console);
    let network = network::up(job.name_server.as_deref());
    console.say("network", &network);
    if let Some(image) = &job.image {
        // Without a network the puller would try for as long as it is let.
        let secs = if network.error.is_none() { job.pull_secs } else { LATE.as_secs() };
        console.say("pull", &pull::pull(image, connection, Duration::from_secs(secs)));
    }
    console.say("memory", &files::memory());
    Ok(())
}

/// Listens, for as long as the listener lives. No host is there to connect: this machine may have
/// no vhost, so what carries the connections is looked for among the kernel's drivers.
fn listen() -> (Option<VsockListener>, Driver) {
    let listener = match VsockListener::bind_with_cid_port(VMADDR_CID_ANY, PORT) {
        Ok(listener) => listener,
        Err(error) => {
            let error = Some(format!("it cannot listen on port {PORT}: {error}"));
            return (None, Driver { error, ..Driver::default() });
        }
    };
    let has_transport = || Path::new("/sys/bus/virtio/drivers").join(TRANSPORT).exists();
    let loaded = !has_transport() && modprobe(TRANSPORT) && late(has_transport).is_some();
    let error = (!has_transport()).then(|| "no virtio transport: no host reaches it".to_owned());
    (Some(listener), Driver { interface: None, loaded, error })
}

/// Waits until `look` finds something; seconds since the beginning.
fn late(look: impl Fn() -> bool) -> Option<f64> {
    let start = Instant::now();
    while start.elapsed() < LATE {
        if look() {
            return Some(start.elapsed().as_secs_f64());
        }
        sleep(POLL);
    }
    None
}

/// Loads a driver that nothing in the image has loaded.
fn modprobe(driver: &str) -> bool {
    let mut command = Command::new("modprobe");
    command.arg(driver).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Where the host reads.
struct Console(Option<File>);

impl Console {
    /// Says one part of [`Seen`](crate::seen::Seen).
    fn say(&mut self, part: &str, value: &impl Serialize) {
        let uptime = files::line("/proc/uptime");
        let uptime = uptime.split(' ').next().unwrap_or("0");
        // Whatever stands on the line before stays there.
        let line = format!("\n@@ {uptime} {MARK} {}\n", json!({ part: value }));
        if let Some(console) = &mut self.0 {
            let _ = console.write_all(line.as_bytes());
        }
    }
}
