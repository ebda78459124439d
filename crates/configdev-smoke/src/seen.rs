//! What the stand-in of the agent sees in the guest, and how it says it on the console.
//!
//! All that was seen so far is one line `@@ 0 smoke {...}`, which [`vm_harness::Report`] finds
//! among everything else; the last one counts. The guest's image is not believed to be honest: it
//! is its builder who asks.

use serde::{Deserialize, Serialize};
use vm_harness::Report;

/// The name of the marks.
pub const MARK: &str = "smoke";

/// Where the second archive has its files in the guest.
pub const FOLDER: &str = ".configdev-smoke";

/// What the stand-in is told: `job.json` in [`FOLDER`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Job {
    /// The image to ask for; none: no pull.
    pub image: Option<String>,
    /// The socket that this agent connects to, once.
    pub socket: String,
    /// How long a pull may take, in seconds.
    pub pull_secs: u64,
}

/// What was seen, or why the agent does not get on.
pub type Part = Option<Result<String, String>>;

/// All that was seen; `None` where the agent did not get so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// Seconds since 1970 when the agent was started.
    pub clock_secs: Option<u64>,
    /// What the agent listens on, for the host.
    pub vsock: Part,
    /// Whether the agent left what was in `/run`.
    pub run: Part,
    /// The names of the disks, with the magic where it is one of ours: `vda (initdata)`.
    pub disks: Option<Vec<String>>,
    /// The files that the processor left, and their folders.
    pub files: Option<Vec<String>>,
    /// The processor's reason to leave no document.
    pub reason: String,
    /// Where the agent reads its policy, and its beginning, if there is one.
    pub policy: Option<(String, Option<String>)>,
    /// The agent's one connection.
    pub socket: Part,
    /// The network's interface.
    pub network: Part,
    /// The digest of the manifest, or why there is no image.
    pub pull: Part,
    /// The type of what is mounted where the image is to be, if that has files.
    pub mounted: Option<String>,
    /// There is no more to see.
    pub done: bool,
}

/// The last that a console says.
#[must_use]
pub fn read(report: &Report) -> Seen {
    let all = report.values(MARK).filter_map(|text| serde_json::from_str(text).ok());
    all.last().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_that_makes_sense_counts() {
        let seen =
            Seen { clock_secs: Some(9), vsock: Some(Err("no".to_owned())), ..Seen::default() };
        let said = serde_json::to_string(&seen).unwrap();
        let console = format!(
            "[ 0.1] boot\r\n@@ 0 {MARK} {{\"done\": true}}\r\n@@ 0 {MARK} {said}\r\n\
             @@ 0 {MARK} {{\"done\": 7}}\n@@ 0 other 1\n"
        );
        assert_eq!(read(&Report::parse(console, Duration::ZERO)), seen);
    }
}
