//! Who starts what: systemd's units, or a script that is the first program.

use initdata_processor::settings::AcceptedDisk;

use super::{Check, MAX_TEXT_BYTES};

/// What gives the agent the policy.
const POLICY: &str = "KATA_AGENT_POLICY_FILE=/run/measured-cfg/policy.rego";

const PROCESSOR: &str = "initdata-processor.service";
const REFRESH: &str = "initdata-processor-refresh.service";
const TARGET: &str = "initdata.target";
const PULLER: &str = "imagepuller.service";
const WALL: &str = "initdata-read-only.service";
pub const AGENT: &str = "kata-agent.service";

/// What has to stand in a unit: its name, the directive, a word of it, and what is wrong without.
const UNITS: [(&str, &str, &str, &str); 9] = [
    (AGENT, "Requires", TARGET, "the agent starts without a verdict about initdata"),
    (AGENT, "After", TARGET, "the agent starts before the verdict about initdata"),
    (
        AGENT,
        "AssertPathExists",
        "|!/run/insecure-cfg/initdata.refused",
        "an agent without the policy starts after a refusal",
    ),
    (AGENT, "Wants", PULLER, "nobody starts the puller"),
    (AGENT, "After", PULLER, "the agent looks for the puller's socket before it is there"),
    (TARGET, "Requires", PROCESSOR, "the target is reached without a verdict"),
    (TARGET, "After", PROCESSOR, "the target is reached before the verdict"),
    (PROCESSOR, "Type", "oneshot", "nothing waits for the verdict"),
    (PULLER, "After", TARGET, "the puller starts before its configuration is there"),
];

/// How the names of units begin that a guest needs, so that what they start has to be there.
const NEEDED: [&str; 5] =
    ["kata-agent", "initdata-", "imagepuller", "attestation-", "confidential-"];

/// Where the first program is.
const SCRIPTS: [&str; 3] = ["init", "sbin/init", "usr/sbin/init"];

impl Check<'_> {
    pub fn boot(&mut self) {
        let units = self.started_units();
        if units.contains_key(AGENT) {
            self.units = units;
            return self.units();
        }
        let script = SCRIPTS.iter().find(|path| {
            let start = self.tree.bytes(path, MAX_TEXT_BYTES).ok().flatten();
            start.is_some_and(|text| text.starts_with(b"#!"))
        });
        if let Some((path, text)) = script.and_then(|path| Some((*path, self.text(path)?))) {
            self.script(path, &text);
            self.script = Some(text);
        } else {
            self.error(
                "boot",
                "there is neither a kata-agent.service nor a script as the first program, so who \
                starts the processor before the agent is not known",
            );
        }
    }

    fn units(&self) {
        let is_needed = |name: &str| NEEDED.iter().any(|start| name.starts_with(start));
        let says = |name: &str, key: &str, word: &str| {
            self.units.get(name).is_some_and(|unit| unit.says(key, word))
        };
        let mut rows = UNITS.to_vec();
        if self.settings.accepted_disk == AcceptedDisk::Copy {
            let row = (PROCESSOR, "DeviceAllow", "/dev/loop-control", "nothing can be copied");
            rows.push(row);
        }
        for name in [PROCESSOR, REFRESH] {
            if self.settings.owner.is_some() && self.units.contains_key(name) {
                let without = "the files cannot be given to the owner";
                rows.push((name, "CapabilityBoundingSet", "CAP_CHOWN", without));
            }
        }
        for (name, key, word, without) in rows {
            if !says(name, key, word) {
                let text = format!(
                    "{without}: {key}={word} is missing, or the unit is masked; see deploy/guest"
                );
                self.error(name, text);
            }
        }
        for (name, unit) in self.units.iter().filter(|(name, _)| is_needed(name)) {
            let programs = unit.values("ExecStart").filter_map(|line| line.split(' ').next());
            for program in programs.filter(|path| path.starts_with('/')) {
                if !self.tree.is_program(program) {
                    let text = format!("it starts {program}, and there is no such program");
                    self.error(name, text);
                }
            }
        }
        if self.units.get(PROCESSOR).is_some_and(|unit| unit.has_condition()) {
            self.error(
                PROCESSOR,
                "it has a Condition: where that does not hold the unit counts as started, and the \
                agent comes up without a policy",
            );
        }
        let allows = says(AGENT, "AssertPathExists", "|/run/measured-cfg/policy.rego")
            && says(PROCESSOR, "SuccessExitStatus", "65");
        self.gives_policy(AGENT, says(AGENT, "Environment", POLICY), allows);
        self.wall(WALL, self.units.contains_key(WALL));
    }

    fn script(&self, path: &str, text: &str) {
        for program in ["usr/bin/initdata-processor", "usr/bin/imagepuller"] {
            if !self.tree.is_program(program) {
                self.error(program, "there is no such program");
            }
        }
        let has = |word: &str| code(text).any(|line| line.contains(word));
        let processor = code(text).position(|line| line.contains("initdata-processor"));
        // Not each `exec`: with redirections alone it starts nothing.
        let agent = self.options.agent.file_name().unwrap_or_default().to_string_lossy();
        let starts_agent = |line: &str| line.contains("exec ") && line.contains(&*agent);
        let agent = code(text).position(starts_agent).unwrap_or(usize::MAX);
        if processor.is_none_or(|at| at > agent) {
            self.error(path, "it does not run initdata-processor before the agent");
        }
        // By the exit code, or by the file that says so.
        let mut rest = code(text).skip(processor.unwrap_or(usize::MAX));
        let asks = ["if ", "||", "&&", "$?", "initdata.refused"];
        if !rest.any(|line| asks.iter().any(|word| line.contains(word))) {
            self.error(path, "it does not ask whether initdata was refused");
        }
        self.gives_policy(path, has(POLICY), has(POLICY));
        self.wall(path, has("/run/confidential-containers/.initdata"));
    }

    fn gives_policy(&self, place: &str, gives: bool, allows: bool) {
        match (self.agent.knows_policies, gives, allows) {
            (true, false, _) => {
                let text = "is missing, so the agent does not take initdata's policy";
                self.error(place, format!("{POLICY} {text}"));
            }
            (true, true, false) => self.warn(
                place,
                "after a refusal the agent stays off and nobody tells the reason; see \
                60-policy.conf",
            ),
            (false, _, true) => self.error(
                place,
                "an agent that knows no policies starts after a refusal; take 60-policy.conf, or \
                the line with KATA_AGENT_POLICY_FILE, out",
            ),
            (true, true, true) | (false, _, false) => {}
        }
    }

    fn wall(&self, place: &str, is_there: bool) {
        if self.agent.looks_for_initdata && !is_there {
            self.error(
                place,
                "nothing makes /run/confidential-containers/.initdata read-only, so the agent \
                believes a disk that the host plugs in late; see docs/guest.md",
            );
        }
    }
}

/// The lines of a script that are no comments.
pub fn code(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with('#'))
}
