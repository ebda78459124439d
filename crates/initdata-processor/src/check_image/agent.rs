//! The agent: what it was built with, and what it finds of policies and initdata.

use super::Check;
use crate::settings::AcceptedDisk;

/// Where the agent starts the attestation agent from.
pub const ATTESTATION_AGENT: &str = "usr/local/bin/attestation-agent";

/// What the agent's program says about it, by words that are in it only if a part was built in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agent {
    /// It reads `KATA_AGENT_POLICY_FILE`.
    pub knows_policies: bool,
    /// It looks for initdata itself.
    pub looks_for_initdata: bool,
    /// It asks for images on the hub's socket, not on the puller's own.
    pub asks_the_hub: bool,
}

const WORDS: [&str; 4] = [
    "KATA_AGENT_POLICY_FILE",
    "Initdata find potential device",
    "/run/confidential-containers/cdh.sock",
    "guest-services/imagepull.socket",
];

impl Check<'_> {
    pub fn agent(&mut self) -> Option<Agent> {
        let path = self.options.agent.display().to_string();
        let words = self.tree.words(&path, WORDS);
        let [policies, initdata, hub, puller] = match words {
            Ok(Some(words)) => words,
            Ok(None) => {
                let text = "there is no agent, and the rest depends on it; name it with --agent";
                self.error(path, text);
                return None;
            }
            Err(error) => {
                self.error(path, format!("cannot be read: {error}"));
                return None;
            }
        };
        let agent = Agent {
            knows_policies: policies,
            looks_for_initdata: initdata,
            asks_the_hub: hub && !puller,
        };
        self.policy(agent, &path);
        self.accepted_disk(agent);
        Some(agent)
    }

    fn policy(&mut self, agent: Agent, path: &str) {
        let default = self.settings.default_policy.display().to_string();
        if !agent.knows_policies {
            self.warn(
                path,
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
    fn accepted_disk(&mut self, agent: Agent) {
        let has_attestation = self.tree.is_program(ATTESTATION_AGENT);
        let (setting, disk) = ("accepted-disk", self.settings.accepted_disk);
        if !agent.looks_for_initdata {
            if disk != AcceptedDisk::Remove {
                self.warn(setting, "this agent looks for no disk; \"remove\" says the same");
            }
        } else if disk != AcceptedDisk::Remove && !has_attestation {
            self.error(
                setting,
                "the agent believes any disk that it finds, and there is no attestation agent in \
                /usr/local/bin that would notice; say \"remove\"",
            );
        } else if disk == AcceptedDisk::Keep {
            self.warn(
                setting,
                "the host can change the disk after it was verified; say \"copy\" where the kernel \
                has loop devices",
            );
        }
    }
}
