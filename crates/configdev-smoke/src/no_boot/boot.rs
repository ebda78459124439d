//! Who starts what: systemd's units, or a script that is the first program.

use std::collections::BTreeSet;

use initdata_processor::settings::AcceptedDisk;

use super::Check;

const ID: &str = "image-boot";

/// What gives the agent the policy.
const POLICY: &str = "KATA_AGENT_POLICY_FILE=/run/measured-cfg/policy.rego";

const PROCESSOR: &str = "initdata-processor.service";
const TARGET: &str = "initdata.target";
const PULLER: &str = "imagepuller.service";
pub const AGENT: &str = "kata-agent.service";

const MASKED: &str = "it is masked (a link to /dev/null), so nothing starts it; unmask it, or take \
                      out what asks for it";

/// What has to stand in a unit: its name, the directive, a word of it, and what is wrong without.
const UNITS: [(&str, &str, &str, &str); 8] = [
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
    (PULLER, "After", TARGET, "the puller starts before its configuration is there"),
];

/// How the names of units begin that a guest needs, so that what they start has to be there.
const NEEDED: [&str; 4] = ["kata-agent", "initdata-", "attestation-", "confidential-"];

/// How those of `deploy/guest` begin besides, which nobody masks for nothing.
const OURS: [&str; 3] = [TARGET, "imagepuller", "run-imagepuller"];

/// Where the first program is.
const SCRIPTS: [&str; 3] = ["init", "sbin/init", "usr/sbin/init"];

impl Check<'_> {
    pub fn boot(&mut self) {
        for program in ["usr/bin/initdata-processor", "usr/bin/imagepuller"] {
            if !self.tree.is_program(program) {
                self.error(ID, program, "there is no such program");
            }
        }
        let (units, masked) = self.started_units();
        if units.contains_key(AGENT) {
            self.units = units;
            return self.units(&masked);
        }
        let script = SCRIPTS.iter().find(|path| {
            let start = self.tree.bytes(path, super::MAX_TEXT_BYTES).ok().flatten();
            start.is_some_and(|text| text.starts_with(b"#!"))
        });
        if let Some((path, text)) = script.and_then(|path| Some((*path, self.text(path)?))) {
            self.script(path, &text);
            self.script = Some(text);
        } else if masked.contains(AGENT) {
            self.error(ID, AGENT, MASKED);
        } else {
            self.error(
                ID,
                "boot",
                "there is neither a kata-agent.service nor a script as the first program, so who \
                starts the processor before the agent is not known",
            );
        }
    }

    fn units(&self, masked: &BTreeSet<String>) {
        let begins =
            |name: &str, starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        for name in masked.iter().filter(|name| begins(name, &NEEDED) || begins(name, &OURS)) {
            self.error(ID, name, MASKED);
        }
        let says = |name: &str, key: &str, word: &str| {
            self.units.get(name).is_some_and(|unit| unit.says(key, word))
        };
        for (name, key, word, without) in UNITS {
            if !masked.contains(name) && !says(name, key, word) {
                let text = format!("{without}: {key}={word} is missing; see deploy/guest/systemd");
                self.error(ID, name, text);
            }
        }
        for (name, unit) in self.units.iter().filter(|(name, _)| begins(name, &NEEDED)) {
            let programs = unit.values("ExecStart").filter_map(|line| line.split(' ').next());
            for program in programs.filter(|path| path.starts_with('/')) {
                if !self.tree.is_program(program) {
                    let text = format!("it starts {program}, and there is no such program");
                    self.error(ID, name, text);
                }
            }
        }
        let Some(processor) = self.units.get(PROCESSOR) else {
            return;
        };
        let allows = says(AGENT, "AssertPathExists", "|/run/measured-cfg/policy.rego")
            && processor.says("SuccessExitStatus", "65");
        self.gives_policy(AGENT, says(AGENT, "Environment", POLICY), allows);
        let mut owners = self.units.iter().filter(|(name, _)| {
            *name == PROCESSOR || *name == "initdata-processor-refresh.service"
        });
        for (is_missing, text) in [
            (
                processor.has_condition(),
                "it has a Condition: where that does not hold the unit counts as started, and the \
                agent comes up without a policy",
            ),
            (
                self.settings.accepted_disk == AcceptedDisk::Copy
                    && !processor.says("DeviceAllow", "/dev/loop-control"),
                "accepted-disk = \"copy\" needs deploy/guest/optional/accepted-disk-copy.conf",
            ),
            (
                self.settings.owner.is_some()
                    && !owners.all(|(_, unit)| unit.says("CapabilityBoundingSet", "CAP_CHOWN")),
                "an owner needs deploy/guest/optional/owner.conf, for \
                initdata-processor-refresh.service too",
            ),
        ] {
            if is_missing {
                self.error(ID, PROCESSOR, text);
            }
        }
        let wall = "initdata-read-only.service";
        self.wall(wall, masked.contains(wall) || self.units.contains_key(wall));
    }

    fn script(&self, path: &str, text: &str) {
        let has = |word: &str| code(text).any(|line| line.contains(word));
        let processor = code(text).position(|line| line.contains("initdata-processor"));
        let agent = code(text).position(becomes_program).unwrap_or(usize::MAX);
        if processor.is_none_or(|at| at > agent) {
            self.error(ID, path, "it does not run initdata-processor before the agent");
        }
        // By the exit code, or by the file that says so.
        let mut rest = code(text).skip(processor.unwrap_or(usize::MAX));
        let asks = ["if ", "||", "&&", "$?", "initdata.refused"];
        if !rest.any(|line| asks.iter().any(|word| line.contains(word))) {
            self.error(ID, path, "it does not ask whether initdata was refused");
        }
        self.gives_policy(path, has(POLICY), has(POLICY));
        self.wall(path, has("/run/confidential-containers/.initdata"));
    }

    fn gives_policy(&self, place: &str, gives: bool, allows: bool) {
        match (self.agent.knows_policies, gives, allows) {
            (true, false, _) => {
                let text = "is missing, so the agent does not take initdata's policy";
                self.error(ID, place, format!("{POLICY} {text}"));
            }
            (true, true, false) => self.warn(
                ID,
                place,
                "after a refusal the agent stays off and nobody tells the reason; \
                see 60-policy.conf",
            ),
            (false, _, true) => self.error(
                ID,
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
                ID,
                place,
                "nothing makes /run/confidential-containers/.initdata read-only, so the agent \
                believes a disk that the host plugs in late; see docs/guest.md",
            );
        }
    }
}

/// Whether a line of a script has an `exec` of a program: with redirections alone it starts none.
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
