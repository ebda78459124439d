//! The stand-in for Kata's agent: does what the agent does, in its order, and says what it sees.
//!
//! As the agent of Kata 4.1 (`src/agent/src/main.rs`): mounts, where it is the first program;
//! vsock, without which it ends (this goes on, to say the rest); the policy, without which it ends;
//! guest components; one connection to the hub's socket, made at the start or never; the network,
//! which the host asks for; a pull over that connection. It starts the image's hub only in so far
//! as it takes its socket away, as the agent does before.
//!
//! `components`: what the agent starts. `disks`: what the kernel sees. `files`: what the processor
//! left. `mounts`: of the first program. `network`: over netlink. `pull`: one pull. `vsock`: where
//! it listens.

mod components;
mod disks;
mod files;
mod mounts;
mod network;
mod pull;
mod vsock;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::seen::{FOLDER, Job, MARK, Seen};

/// How long something that comes late is waited for, only to say how late.
const LATE: Duration = Duration::from_secs(15);

/// How often that is looked at.
const POLL: Duration = Duration::from_millis(100);

/// Runs in the guest until the host ends the machine.
pub fn run() -> ExitCode {
    let job = fs::read(format!("/{FOLDER}/job.json"));
    let Some(job) = job.ok().and_then(|job| serde_json::from_slice(&job).ok()) else {
        eprintln!("configdev-smoke-agent: only for guests that configdev-smoke boots");
        return ExitCode::from(64);
    };
    let hides_results = mounts::make();
    // What the kernel says would come in the middle of a line; the host has what it said before.
    let _ = fs::write("/proc/sys/kernel/printk", "1 4 1 7");
    let mut console = Console::open();
    if let Err(why) = work(&job, hides_results, &mut console) {
        console.say(&Seen::Ends { why });
    }
    console.say(&Seen::Done);
    // The host ends the machine; a first program that ends is a panic of the kernel.
    loop {
        sleep(Duration::from_secs(60));
    }
}

/// Everything in its order; an error is where the agent would end.
fn work(job: &Job, hides_results: bool, console: &mut Console) -> Result<(), String> {
    let policy_file = std::env::var("KATA_AGENT_POLICY_FILE").ok();
    let processes = components::processes();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let (_listener, vsock) = vsock::listen();
    console.say(&Seen::Agent {
        pid: std::process::id(),
        kernel: files::line("/proc/sys/kernel/osrelease"),
        policy_file: policy_file.clone(),
        processes: processes.clone(),
        clock_secs: now.unwrap_or_default().as_secs(),
    });
    console.say(&vsock);
    console.say(&Seen::Run { kind: mounts::kind_at("/run"), by_agent: hides_results });
    disks::look(console);
    let policy = files::policy(policy_file.as_deref(), console);
    files::look(console);
    policy?;
    let takes_away = components::start(processes.as_deref(), &job.socket, console);
    let connection = pull::connect(&job.socket, takes_away, console);
    let network = network::up(job.name_server.as_deref());
    console.say(&network);
    let is_up = matches!(network, Seen::Network { error: None, .. });
    if let Some(image) = &job.image {
        // Without a network the puller would try for as long as it is let.
        let secs = if is_up { job.pull_secs } else { LATE.as_secs() };
        pull::pull(image, connection, Duration::from_secs(secs), console);
    }
    files::memory(console);
    Ok(())
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
    let status = Command::new("modprobe")
        .arg(driver)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Where the host reads.
struct Console(Option<File>);

impl Console {
    fn open() -> Self {
        Self(OpenOptions::new().write(true).open("/dev/console").ok())
    }

    fn say(&mut self, seen: &Seen) {
        let uptime = files::line("/proc/uptime");
        let uptime = uptime.split(' ').next().unwrap_or("0").to_owned();
        let Ok(json) = serde_json::to_string(seen) else {
            return;
        };
        // Whatever stands on the line before stays there.
        let line = format!("\n@@ {uptime} {MARK} {json}\n");
        if let Some(console) = &mut self.0 {
            let _ = console.write_all(line.as_bytes());
        }
    }
}
