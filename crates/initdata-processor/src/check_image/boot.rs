//! Who starts what: systemd's units, or a script that is the first program.

use std::collections::BTreeSet;

use super::Check;
use super::agent::Agent;
use super::unit::{Unit, Units};
use crate::settings::AcceptedDisk;

/// What gives the agent the policy.
const POLICY: &str = "KATA_AGENT_POLICY_FILE=/run/measured-cfg/policy.rego";

const PROCESSOR: &str = "initdata-processor.service";

const AGENT: &str = "kata-agent.service";

const MASKED: &str = "it is masked (a link to /dev/null), so nothing starts it; unmask it, or take \
                      out what asks for it";

/// What a boot starts.
#[derive(Debug)]
pub enum Boot {
    /// Units.
    Units(Units),
    /// The first program, a script.
    Script(String),
    /// Nothing that could be read.
    Unknown,
}

/// What has to stand in a unit: its name, the directive, a word of it, and what is wrong without.
const UNITS: &[(&str, &str, &str, &str)] = &[
    (
        "kata-agent.service",
        "Requires",
        "initdata.target",
        "the agent starts without a verdict about initdata",
    ),
    (
        "kata-agent.service",
        "After",
        "initdata.target",
        "the agent starts before the verdict about initdata",
    ),
    (
        "kata-agent.service",
        "AssertPathExists",
        "|!/run/insecure-cfg/initdata.refused",
        "an agent without the policy starts after a refusal",
    ),
    ("kata-agent.service", "Wants", "imagepuller.service", "nobody starts the puller"),
    (
        "kata-agent.service",
        "After",
        "imagepuller.service",
        "the agent looks for the puller's socket before it is there",
    ),
    ("initdata.target", "Requires", PROCESSOR, "the target is reached without a verdict"),
    ("initdata.target", "After", PROCESSOR, "the target is reached before the verdict"),
    (
        "imagepuller.service",
        "After",
        "initdata.target",
        "the puller starts before its configuration is there",
    ),
];

/// Where the first program is.
const SCRIPTS: [&str; 3] = ["init", "sbin/init", "usr/sbin/init"];

impl Check<'_> {
    pub fn boot(&mut self, agent: &Agent) -> Boot {
        for program in ["usr/bin/initdata-processor", "usr/bin/imagepuller"] {
            if !self.tree.is_program(program) {
                self.error(program, "there is no such program");
            }
        }
        let (units, masked) = self.started_units();
        if units.contains_key(AGENT) {
            self.units(agent, &units, &masked);
            return Boot::Units(units);
        }
        let script = SCRIPTS.iter().find(|path| {
            let start = self.tree.text(path, super::MAX_TEXT_BYTES).ok().flatten();
            start.is_some_and(|text| text.starts_with(b"#!"))
        });
        let Some((path, text)) = script.and_then(|path| Some((*path, self.text(path)?))) else {
            if masked.contains(AGENT) {
                self.error(AGENT, MASKED);
                return Boot::Unknown;
            }
            self.error(
                "boot",
                "there is neither a kata-agent.service nor a script as the first program, so who \
                starts the processor before the agent is not known",
            );
            return Boot::Unknown;
        };
        self.script(agent, path, &text);
        Boot::Script(text)
    }

    fn units(&mut self, agent: &Agent, units: &Units, masked: &BTreeSet<String>) {
        for name in masked.iter().filter(|name| is_ours(name)) {
            self.error(name, MASKED);
        }
        let rows = UNITS.iter().filter(|(name, ..)| !masked.contains(*name));
        for (name, key, word, without) in rows {
            if !units.get(*name).is_some_and(|unit| unit.says(key, word)) {
                let text = format!("{without}: {key}={word} is missing; see deploy/guest/systemd");
                self.error(*name, text);
            }
        }
        for (name, unit) in units.iter().filter(|(name, _)| is_needed(name)) {
            let commands: Vec<&str> = unit.values("ExecStart").collect();
            let programs = commands.iter().filter_map(|line| line.split(' ').next());
            for program in programs.filter(|path| path.starts_with('/')) {
                if !self.tree.is_program(program) {
                    self.error(name, format!("it starts {program}, and there is no such program"));
                }
            }
        }
        let Some(started) = units.get(AGENT) else {
            return;
        };
        let Some(processor) = units.get(PROCESSOR) else {
            return;
        };
        let gives = started.says("Environment", POLICY);
        let allows = started.says("AssertPathExists", "|/run/measured-cfg/policy.rego");
        let relaxes = processor.says("SuccessExitStatus", "65") || !is_strict(processor);
        self.gives_policy(agent, AGENT, gives, allows && relaxes);
        if !is_strict(processor) {
            self.warn(
                PROCESSOR,
                "refused initdata is no failure of it, so only the assertion of kata-agent.service \
                keeps an agent off; add --strict-exit=initdata",
            );
        }
        if processor.has_condition() {
            self.error(
                PROCESSOR,
                "it has a Condition: where that does not hold the unit counts as started, and the \
                agent comes up without a policy",
            );
        }
        let refresh = units.get("initdata-processor-refresh.service");
        let needs = [
            (
                self.settings.accepted_disk == AcceptedDisk::Copy
                    && !processor.says("DeviceAllow", "/dev/loop-control"),
                "accepted-disk = \"copy\" needs deploy/guest/optional/accepted-disk-copy.conf",
            ),
            (
                self.settings.owner.is_some()
                    && !(processor.says("CapabilityBoundingSet", "CAP_CHOWN")
                        && refresh
                            .is_none_or(|unit| unit.says("CapabilityBoundingSet", "CAP_CHOWN"))),
                "an owner needs deploy/guest/optional/owner.conf, for \
                initdata-processor-refresh.service too",
            ),
            (
                self.settings.accepted_disk != AcceptedDisk::Remove
                    && processor.says("ExecStart", "--layout"),
                "--layout kata-agent needs accepted-disk = \"remove\"",
            ),
        ];
        for (_, text) in needs.iter().filter(|(is_missing, _)| *is_missing) {
            self.error(PROCESSOR, *text);
        }
        let wall = "initdata-read-only.service";
        let is_told = masked.contains(wall);
        self.wall(agent, wall, is_told || units.contains_key(wall));
    }

    fn script(&mut self, agent: &Agent, path: &str, text: &str) {
        let code: Vec<&str> = code(text).collect();
        let line = |word: &str| code.iter().position(|line| line.contains(word));
        let agent_line = code.iter().position(|line| becomes_program(line));
        let agent_line = agent_line.unwrap_or(usize::MAX);
        if line("initdata-processor").is_none_or(|at| at > agent_line) {
            self.error(path, "it does not run initdata-processor before the agent");
        }
        if line("--strict-exit").or(line("initdata.refused")).is_none() {
            self.error(path, "it does not ask whether initdata was refused");
        }
        let gives = line(POLICY).is_some();
        self.gives_policy(agent, path, gives, gives);
        let wall = line("/run/confidential-containers/.initdata").is_some();
        self.wall(agent, path, wall);
    }

    fn gives_policy(&mut self, agent: &Agent, subject: &str, gives: bool, allows: bool) {
        match (agent.knows_policies, gives, allows) {
            (true, false, _) => self.error(
                subject,
                format!("{POLICY} is missing, so the agent does not take initdata's policy"),
            ),
            (true, true, false) => self.warn(
                subject,
                "after a refusal the agent stays off and nobody tells the reason; \
                see 60-policy.conf",
            ),
            (false, _, true) => self.error(
                subject,
                "an agent that knows no policies starts after a refusal; take 60-policy.conf, or \
                the line with KATA_AGENT_POLICY_FILE, out",
            ),
            (true, true, true) | (false, _, false) => {}
        }
    }

    fn wall(&mut self, agent: &Agent, subject: &str, is_there: bool) {
        if agent.looks_for_initdata && !is_there {
            self.error(
                subject,
                "nothing makes /run/confidential-containers/.initdata read-only, so the agent \
                believes a disk that the host plugs in late; see docs/guest.md",
            );
        }
    }
}

/// Whether a guest needs this unit, so that what it starts has to be there.
fn is_needed(name: &str) -> bool {
    const NEEDED: [&str; 4] = ["kata-agent", "initdata-", "attestation-", "confidential-"];
    NEEDED.iter().any(|start| name.starts_with(start))
}

/// Whether it is one of `deploy/guest`, which nobody masks for nothing.
fn is_ours(name: &str) -> bool {
    const OURS: [&str; 3] = ["initdata.target", "imagepuller", "run-imagepuller"];
    is_needed(name) || OURS.iter().any(|start| name.starts_with(start))
}

/// Whether refused initdata is a failure of the unit.
fn is_strict(processor: &Unit) -> bool {
    let strict = ["--strict-exit", "--strict-exit=initdata", "--strict-exit=all"];
    strict.iter().any(|word| processor.says("ExecStart", word))
}

/// Whether a line of a script has an `exec` of a program: with redirections alone it starts nothing.
fn becomes_program(line: &str) -> bool {
    line.split("exec ").skip(1).any(|rest| {
        let command = rest.split([';', '#']).next().unwrap_or_default();
        let mut words = command.split_whitespace();
        while let Some(word) = words.next() {
            let operator = word.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if !operator.starts_with(['<', '>']) {
                return true;
            }
            if operator.trim_start_matches(['<', '>', '&', '|']).is_empty() {
                // Where to, which is a word of its own.
                words.next();
            }
        }
        false
    })
}

/// The lines of a script that are no comments.
pub fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with('#'))
}
