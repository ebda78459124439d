//! What the stand-in of the agent sees in the guest, and how it says it on the console.
//!
//! Each is one line `@@ UPTIME smoke JSON`, which [`vm_harness::Report`] finds among everything
//! else. The guest's image is not believed to be honest: it is its builder who asks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vm_harness::Report;

/// The name of the marks.
pub const MARK: &str = "smoke";

/// Where the second archive has its files in the guest.
pub const FOLDER: &str = ".configdev-smoke";

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

/// One thing that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Seen {
    /// The agent was started.
    Agent {
        /// Its process number; 1 where it is the first program.
        pid: u32,
        /// The kernel's release.
        kernel: String,
        /// `KATA_AGENT_POLICY_FILE`.
        policy_file: Option<String>,
        /// `agent.guest_components_procs`; none: the agent's own default.
        processes: Option<String>,
        /// Seconds since 1970.
        clock_secs: u64,
    },
    /// What the agent listens on, for the host.
    Vsock {
        /// Its transport was there only after the stand-in had loaded it.
        loaded: bool,
        /// Why nobody reaches the agent.
        error: Option<String>,
    },
    /// A disk.
    Disk {
        /// Such as `vda`.
        name: String,
        /// Its first eight bytes, where they are one of ours.
        magic: Option<String>,
        /// Whether the kernel calls it read-only.
        read_only: bool,
        /// Whether an agent that looks through `/dev` would find it.
        visible: bool,
    },
    /// `/run`.
    Run {
        /// The type of what is mounted there; none: nothing.
        kind: Option<String>,
        /// The agent, which is the first program, mounted it over what was there.
        by_agent: bool,
    },
    /// The policy's file.
    Policy {
        /// Where the agent reads it.
        path: String,
        /// Its beginning; none: there is no file.
        text: Option<String>,
        /// Seconds after which it came, where it was not there when the agent started.
        late_secs: Option<f64>,
    },
    /// A file below `/run/measured-cfg` or `/run/insecure-cfg`.
    File {
        /// Its path.
        path: String,
        /// The last four octal digits.
        mode: String,
        /// `UID:GID`.
        owner: String,
        /// Its size.
        bytes: u64,
        /// Its text, where it is a reason of the processor's.
        reason: Option<String>,
    },
    /// What the processor wrote to the kernel's log.
    Processor {
        /// Its last lines.
        lines: Vec<String>,
    },
    /// The agent would start a data hub of the image's.
    Hub {
        /// Its program is there.
        is_there: bool,
    },
    /// A socket.
    Socket {
        /// Its path.
        path: String,
        /// Its mode; none: it is not there.
        mode: Option<String>,
        /// What the one connection of the agent ended with, where it is the agent's.
        error: Option<String>,
        /// Seconds after which it came, where it was not there when the agent started.
        late_secs: Option<f64>,
    },
    /// The network.
    Network {
        /// The interface.
        interface: Option<String>,
        /// It was there only after the stand-in had loaded its driver.
        loaded: bool,
        /// Why it is not up.
        error: Option<String>,
    },
    /// A pull.
    Pull {
        /// The digest of the manifest.
        digest: Option<String>,
        /// Why there is no image.
        error: Option<String>,
        /// How long it took.
        secs: f64,
        /// Files and folders at the top of the mounted image.
        entries: usize,
        /// The type of what is mounted there.
        mounted: Option<String>,
    },
    /// Memory, in KiB.
    Memory {
        /// All of the guest's.
        total: u64,
        /// What is left.
        available: u64,
        /// The most that programs of this project took.
        peaks: BTreeMap<String, u64>,
    },
    /// The agent ends here, as Kata's does.
    Ends {
        /// Why.
        why: String,
    },
    /// There is no more to see.
    Done,
}

/// Everything that a console says, with seconds since the guest's kernel started.
#[must_use]
pub fn read(report: &Report) -> Vec<(f64, Seen)> {
    let marks = report.marks(MARK);
    marks.filter_map(|(uptime, value)| Some((uptime, serde_json::from_str(value).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_said_is_read_among_other_lines() {
        let seen = Seen::Run { kind: Some("tmpfs".to_owned()), by_agent: false };
        let line = serde_json::to_string(&seen).unwrap();
        let console = format!(
            "[ 0.1] boot\r\n@@ 1.50 {MARK} {line}\r\n@@ 2 {MARK} {{\"what\": \"unknown\"}}\n\
             @@ 3 other 1\n"
        );
        let report = Report::parse(console, Duration::ZERO);
        assert_eq!(read(&report), [(1.5, seen)]);
    }
}
