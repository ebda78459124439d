//! What the stand-in of the agent sees in the guest, and how it says it on the console.
//!
//! Each part is one line `@@ UPTIME smoke {"PART": ...}`, which [`vm_harness::Report`] finds among
//! everything else. The guest's image is not believed to be honest: it is its builder who asks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vm_harness::Report;

/// The name of the marks.
pub const MARK: &str = "smoke";

/// Where the second archive has its files in the guest.
pub const FOLDER: &str = ".configdev-smoke";

/// Where the processor leaves verified files.
pub const MEASURED: &str = "/run/measured-cfg";
/// Where it leaves those that nothing verifies.
pub const INSECURE: &str = "/run/insecure-cfg";

/// The most characters of a foreign text in a mark.
pub const MAX_TEXT_CHARS: usize = 1000;

/// What the stand-in is told: `job.json` in [`FOLDER`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Job {
    /// The image to ask for; none: no pull.
    pub image: Option<String>,
    /// The socket that this agent connects to, once.
    pub socket: String,
    /// A name server, where the guest reaches one.
    pub name_server: Option<String>,
    /// How long a pull may take, in seconds.
    pub pull_secs: u64,
}

/// All that was seen, by the names of the parts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// Uptime when the agent was started, in seconds.
    #[serde(skip)]
    pub agent_secs: f64,
    /// The agent, once it was started.
    pub agent: Option<Agent>,
    /// What the agent listens on, for the host.
    pub vsock: Option<Driver>,
    /// The disks.
    pub disks: Vec<Disk>,
    /// The type of what is mounted at `/run`; none: nothing.
    pub run: Option<String>,
    /// The agent, which is the first program, mounted it over what was there.
    pub hides_results: bool,
    /// The policy's file.
    pub policy: Option<Policy>,
    /// The files below `/run/measured-cfg` and `/run/insecure-cfg`, and these two.
    pub files: Vec<File>,
    /// The first lines that the processor wrote to the kernel's log.
    pub log: Vec<String>,
    /// Where the agent would start a data hub of the image's, whether its program is there.
    pub hub: Option<bool>,
    /// The sockets, the agent's first.
    pub sockets: Vec<Socket>,
    /// The network.
    pub network: Option<Driver>,
    /// The pull.
    pub pull: Option<Pull>,
    /// Memory at the end.
    pub memory: Option<Memory>,
    /// Why the agent ends, as Kata's does.
    pub ends: Option<String>,
    /// There is no more to see.
    pub done: bool,
}

/// The agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its process number; 1 where it is the first program.
    pub pid: u32,
    /// The kernel's release.
    pub kernel: String,
    /// Seconds since 1970.
    pub clock_secs: u64,
}

/// What a driver of the kernel's makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Driver {
    /// The interface of the network.
    pub interface: Option<String>,
    /// It was there only after the stand-in had loaded its driver.
    pub loaded: bool,
    /// Why it is not up.
    pub error: Option<String>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Such as `vda`.
    pub name: String,
    /// Its first eight bytes, where they are one of ours.
    pub magic: Option<String>,
    /// Whether the kernel calls it read-only.
    pub read_only: bool,
    /// Whether an agent that looks through `/dev` would find it.
    pub visible: bool,
}

/// The policy's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Where the agent reads it.
    pub path: String,
    /// Its beginning; none: there is no file.
    pub text: Option<String>,
    /// Seconds after which it came, where it was not there when the agent started.
    pub late_secs: Option<f64>,
}

/// A file of the processor's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// Its path.
    pub path: String,
    /// The last four octal digits.
    pub mode: String,
    /// `UID:GID`.
    pub owner: String,
    /// Its size.
    pub bytes: u64,
    /// Its text, where it is a reason of the processor's.
    pub reason: Option<String>,
}

/// A socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Socket {
    /// Its path.
    pub path: String,
    /// Its mode; none: it is not there.
    pub mode: Option<String>,
    /// What the one connection of the agent ended with, where it is the agent's.
    pub error: Option<String>,
    /// Seconds after which it came, where it was not there when the agent started.
    pub late_secs: Option<f64>,
}

/// A pull.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pull {
    /// The digest of the manifest, or why there is no image.
    pub answer: Result<String, String>,
    /// How long it took.
    pub secs: f64,
    /// Files and folders at the top of the mounted image.
    pub entries: usize,
    /// The type of what is mounted there.
    pub mounted: Option<String>,
}

/// Memory, in KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// All of the guest's.
    pub total: u64,
    /// What is left.
    pub available: u64,
    /// The most that programs of this project took.
    pub peaks: BTreeMap<String, u64>,
}

/// Everything that a console says. A part that makes no sense is as if it were not said.
#[must_use]
pub fn read(report: &Report) -> Seen {
    let (mut all, mut seen) = (Map::new(), Seen::default());
    for (uptime, text) in report.marks(MARK) {
        let Ok(Value::Object(part)) = serde_json::from_str(text) else {
            continue;
        };
        let agent_secs = if part.contains_key("agent") { uptime } else { seen.agent_secs };
        let more: Map<_, _> = all.clone().into_iter().chain(part).collect();
        if let Ok(read) = serde_json::from_value(Value::Object(more.clone())) {
            seen = Seen { agent_secs, ..read };
            all = more;
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_said_is_read_among_other_lines() {
        let console = format!(
            "[ 0.1] boot\r\n@@ 1.50 {MARK} {{\"run\": \"tmpfs\"}}\r\n@@ 2 {MARK} {{\"x\": 1}}\n\
             @@ 3 {MARK} {{\"run\": 7}}\n@@ 3 other 1\n\
             @@ 4 {MARK} {{\"agent\": {{\"pid\": 1, \"kernel\": \"6\", \"clock_secs\": 9}}}}\n"
        );
        let report = Report::parse(console, Duration::ZERO);
        let agent = Some(Agent { pid: 1, kernel: "6".to_owned(), clock_secs: 9 });
        let run = Some("tmpfs".to_owned());
        assert_eq!(read(&report), Seen { agent_secs: 4.0, agent, run, ..Seen::default() });
    }
}
