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

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use vsock::{VMADDR_CID_ANY, VsockListener};

use crate::seen::{FOLDER, Job, MARK, Seen};

/// How long a driver is waited for that comes late.
const LATE: Duration = Duration::from_secs(15);

/// The agent's port, on which it listens before anything else that a host could ask for.
const PORT: u32 = 1024;

/// What carries the connections.
pub(crate) const TRANSPORT: &str = "vmw_vsock_virtio_transport";

/// Where an agent that is told nothing looks for its policy.
const DEFAULT_POLICY: &str = "/etc/kata-opa/default-policy.rego";

/// Runs in the guest until the host ends the machine.
pub fn run() -> ExitCode {
    let job = fs::read(format!("/{FOLDER}/job.json"));
    let Some(job) = job.ok().and_then(|job| serde_json::from_slice(&job).ok()) else {
        eprintln!("configdev-smoke-agent: only for guests that configdev-smoke boots");
        return ExitCode::from(64);
    };
    let mut seen = Seen { run: Some(files::mount_all()), ..Seen::default() };
    // What the kernel says would come in the middle of a line; the host has what it said before.
    let _ = fs::write("/proc/sys/kernel/printk", "1 4 1 7");
    let listener = listen();
    seen.vsock =
        Some(listener.as_ref().map(|_| "the agent listens".to_owned()).map_err(Clone::clone));
    look(&job, &mut seen);
    seen.done = true;
    say(&seen);
    // The host ends the machine; a first program that ends is a panic of the kernel.
    loop {
        sleep(Duration::from_secs(60));
    }
}

/// Everything in its order, up to where nothing that follows can be told.
fn look(job: &Job, seen: &mut Seen) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    seen.clock_secs = Some(now.as_secs());
    if matches!(seen.run, Some(Err(_))) {
        return;
    }
    seen.disks = Some(files::disks());
    seen.files = Some(files::left());
    seen.reason = files::start_of("/run/insecure-cfg/imagepuller.error").unwrap_or_default();
    let path = env::var("KATA_AGENT_POLICY_FILE").unwrap_or_else(|_| DEFAULT_POLICY.to_owned());
    let policy = files::start_of(&path);
    let has_policy = policy.is_some();
    seen.policy = Some((path, policy));
    say(seen);
    if !has_policy {
        return;
    }
    let connection = pull::connect(&job.socket);
    let is_there = |_| format!("connected to {}", job.socket);
    seen.socket = Some(connection.as_ref().map(is_there).map_err(Clone::clone));
    let network = network::up();
    seen.network = Some(network.map_err(|error| error.to_string()));
    say(seen);
    // Without a network the puller would try for as long as it is let.
    if let (Some(image), Ok(connection), Some(Ok(_))) = (&job.image, connection, &seen.network) {
        let limit = Duration::from_secs(job.pull_secs);
        seen.pull = Some(pull::pull(image, connection, limit));
        seen.mounted = pull::mounted();
    }
}

/// Listens, for as long as the listener lives. No host is there to connect: this machine may have
/// no vhost, so what carries the connections is looked for among the kernel's drivers.
fn listen() -> Result<VsockListener, String> {
    let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, PORT)
        .map_err(|error| format!("it cannot listen on port {PORT}: {error}"))?;
    let has_transport = || Path::new("/sys/bus/virtio/drivers").join(TRANSPORT).exists();
    match has_driver(TRANSPORT, has_transport) {
        true => Ok(listener),
        false => Err("no virtio transport: no host reaches it".to_owned()),
    }
}

/// Whether there is what a driver makes, once it is loaded.
fn has_driver(driver: &str, is_there: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    if !is_there() {
        let mut command = Command::new("modprobe");
        command.arg(driver).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let is_loaded = command.output().is_ok_and(|output| output.status.success());
        while is_loaded && !is_there() && start.elapsed() < LATE {
            sleep(Duration::from_millis(100));
        }
    }
    is_there()
}

/// Says where the host reads what was seen so far.
fn say(seen: &Seen) {
    // Whatever stands on the line before stays there.
    let _ = fs::write("/dev/console", format!("\n@@ 0 {MARK} {}\n", json!(seen)));
}
