//! What can be said of an image without a boot: whether its parts fit together.
//!
//! Everything below the root may be wrong in any way: links are resolved inside of it, every file
//! is read up to a limit, and what is quoted is shown safely.
//!
//! `boot`: who starts what. `hub`: who listens where the agent asks for images, and what the agent
//! starts. `kernel`: the kernel's options. `tree`: files below the root. `unit`: systemd's units
//! with their drop-ins.

mod boot;
pub(crate) mod hub;
mod kernel;
pub mod tree;
mod unit;

use std::cell::RefCell;
use std::path::Path;

use anyhow::{Context as _, Result};
use initdata_processor::settings::{AcceptedDisk, Settings};
use problem::{Finding, Severity};

use crate::options::{CDH_SOCKET, Options};
use tree::Tree;
use unit::Units;

/// The longest text that is read: a kernel's list of modules has half a mebibyte.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// The longest program that is searched; an agent has some 60 MiB.
const MAX_PROGRAM_BYTES: usize = 1 << 30;

/// Where the agent starts the attestation agent from.
const ATTESTATION_AGENT: &str = "usr/local/bin/attestation-agent";

/// What the agent's program says about it, by words that are in it only if a part was built in.
#[derive(Debug, Default)]
struct Agent {
    /// It reads `KATA_AGENT_POLICY_FILE`.
    knows_policies: bool,
    /// It looks for initdata itself.
    looks_for_initdata: bool,
    /// It asks for images on the hub's socket, not on the puller's own.
    asks_the_hub: bool,
}

const WORDS: [&str; 4] = [
    "KATA_AGENT_POLICY_FILE",
    "Initdata find potential device",
    CDH_SOCKET,
    "guest-services/imagepull.socket",
];

/// The image, and what was found so far.
#[derive(Debug)]
struct Check<'a> {
    options: &'a Options,
    tree: Tree,
    settings: Settings,
    agent: Agent,
    /// What systemd starts; empty where the agent is no unit of it.
    units: Units,
    /// The first program, where that is a script and no unit is the agent.
    script: Option<String>,
    findings: RefCell<Vec<Finding>>,
}

/// Checks the image below `root`. Where the guest's kernel parameters are not known, a part that
/// depends on them is not checked.
///
/// # Errors
///
/// The root, or the kernel's configuration that the options name, cannot be read.
pub fn check(root: &Path, options: &Options) -> Result<Vec<Finding>> {
    let mut check = Check {
        options,
        tree: Tree::open(root).with_context(|| root.display().to_string())?,
        settings: Settings::default(),
        agent: Agent::default(),
        units: Units::new(),
        script: None,
        findings: RefCell::default(),
    };
    let settings = "etc/initdata-processor.toml";
    if let Some(text) = check.text(settings) {
        match Settings::parse(text.as_bytes()) {
            Ok(parsed) => check.settings = parsed,
            Err(error) => {
                check.error(settings, format!("initdata is refused: {error}"));
            }
        }
    }
    if let Some(agent) = check.agent() {
        check.agent = agent;
        check.policy();
        check.boot();
        check.accepted_disk();
        check.hub();
        check.kernel()?;
    }
    Ok(check.findings.into_inner())
}

impl Check<'_> {
    fn error(&self, place: impl Into<String>, text: impl Into<String>) {
        self.find(Severity::Error, place, text);
    }

    fn warn(&self, place: impl Into<String>, text: impl Into<String>) {
        self.find(Severity::Warning, place, text);
    }

    fn find(&self, severity: Severity, place: impl Into<String>, text: impl Into<String>) {
        let (place, text, remedy) = (place.into(), text.into(), String::new());
        self.findings.borrow_mut().push(Finding { severity, id: "image", place, text, remedy });
    }

    /// The text of a file, if there is one; one that cannot be read is a finding.
    fn text(&self, path: &str) -> Option<String> {
        let text = self.tree.bytes(path, MAX_TEXT_BYTES).unwrap_or_else(|error| {
            self.error(path, format!("cannot be read: {error}"));
            None
        });
        text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn parameter(&self, key: &str) -> Option<&str> {
        parameter(self.options.append.as_deref().unwrap_or_default(), key)
    }

    fn agent(&self) -> Option<Agent> {
        let path = self.options.agent.display().to_string();
        let why = match self.tree.bytes(&path, MAX_PROGRAM_BYTES) {
            Ok(Some(bytes)) => {
                let has = |word: &str| bytes.windows(word.len()).any(|at| at == word.as_bytes());
                let [knows_policies, looks_for_initdata, hub, puller] = WORDS.map(has);
                let asks_the_hub = hub && !puller;
                return Some(Agent { knows_policies, looks_for_initdata, asks_the_hub });
            }
            Ok(None) => {
                "there is no agent, and the rest depends on it; name it with --agent".to_owned()
            }
            Err(error) => format!("cannot be read: {error}"),
        };
        self.error(path, why);
        None
    }

    fn policy(&self) {
        let default = self.settings.default_policy.display().to_string();
        if !self.agent.knows_policies {
            self.warn(
                self.options.agent.display().to_string(),
                "it knows no policies, so a pod may do what it wants; \
                build it with AGENT_POLICY=yes",
            );
        } else if self.text(&default).is_none() {
            self.warn(
                default,
                "there is no such policy, so pods whose initdata brings none are denied everything",
            );
        }
    }

    /// Nobody but the attestation agent verifies what an agent finds that looks itself.
    fn accepted_disk(&self) {
        let disk = self.settings.accepted_disk;
        if disk == AcceptedDisk::Remove {
            return;
        }
        if self.units.contains_key("attestation-agent.service") {
            self.error(
                "accepted-disk",
                "attestation-agent.service reads what is left of initdata with \"remove\" alone, \
                so tokens bind none; say \"remove\"",
            );
        }
        if !self.agent.looks_for_initdata {
            return;
        }
        if !self.tree.is_program(ATTESTATION_AGENT) {
            self.error(
                "accepted-disk",
                "the agent believes any disk that it finds, and there is no attestation agent in \
                /usr/local/bin that would notice; say \"remove\"",
            );
        } else if disk == AcceptedDisk::Keep {
            self.warn(
                "accepted-disk",
                "the host can change the disk after it was verified; say \"copy\" where the \
                kernel has loop devices",
            );
        }
    }
}

/// A word of the kernel's parameters, without its key: the last counts, as for the kernel.
#[must_use]
pub(crate) fn parameter<'a>(parameters: &'a str, key: &str) -> Option<&'a str> {
    let words = parameters.split_ascii_whitespace();
    words.filter_map(|word| word.strip_prefix(key)).next_back()
}
