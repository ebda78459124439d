//! Who listens where the agent asks for images, and which guest components the agent starts.

use super::Check;
use super::agent::{ATTESTATION_AGENT, Agent};
use super::boot::Boot;
use super::configuration::Processes;
use super::unit::Unit;
use crate::settings::AcceptedDisk;

const SOCKET: &str = "/run/confidential-containers/cdh.sock";
const PARAMETER: &str = "agent.guest_components_procs";

/// What the parameter can be: each starts those before it too.
const PROCESSES: [&str; 4] =
    ["none", "attestation-agent", "confidential-data-hub", "api-server-rest"];

impl Check<'_> {
    pub fn hub(&mut self, agent: &Agent, boot: &Boot) {
        if !agent.asks_the_hub {
            return;
        }
        let owners: Vec<String> = match boot {
            Boot::Units(units) => {
                let listening = units.iter().filter(|(_, unit)| listens(unit));
                listening.map(|(name, _)| name.clone()).collect()
            }
            Boot::Script(text) if text.contains("imagepuller hub") || text.contains(SOCKET) => {
                vec!["the first program".to_owned()]
            }
            Boot::Script(_) | Boot::Unknown => Vec::new(),
        };
        let level = self.processes(boot);
        match owners.as_slice() {
            [_] => {}
            [] => self.error(
                SOCKET,
                "nobody listens there, and the agent asks for images on it; see docs/guest.md",
            ),
            several => self.error(SOCKET, format!("several listen there: {}", several.join(", "))),
        }
        if let Some(level) = level {
            self.components(level, agent, boot);
        }
    }

    /// Whether what the agent starts is there, and only once.
    fn components(&mut self, level: usize, agent: &Agent, boot: &Boot) {
        if level >= 2 {
            self.error(
                PARAMETER,
                "the agent takes the socket away and starts a data hub of its own, or finds none \
                and ends at the first pull; say none or attestation-agent",
            );
            return;
        }
        if level >= 1 && !self.tree.is_program(ATTESTATION_AGENT) {
            let text = format!(
                "/{ATTESTATION_AGENT} is not there, so the agent starts nothing and ends at the \
                first pull; say none"
            );
            self.error(PARAMETER, text);
        }
        let unit = "attestation-agent.service";
        if level >= 1 && matches!(boot, Boot::Units(units) if units.contains_key(unit)) {
            self.error(PARAMETER, format!("the agent starts one beside {unit}; say none"));
        }
        let disk = self.settings.accepted_disk;
        if level >= 1 && (!agent.looks_for_initdata || disk == AcceptedDisk::Remove) {
            self.warn(
                PARAMETER,
                "the agent starts the attestation agent without initdata, so tokens bind none; \
                say accepted-disk = \"copy\", or none with a unit (docs/guest.md)",
            );
        }
    }

    /// What the agent starts, as a place in [`PROCESSES`]; `None` where that is not known.
    fn processes(&mut self, boot: &Boot) -> Option<usize> {
        let value = match self.configured_processes(boot) {
            Processes::Says(value) => value,
            Processes::Unknown => return None,
            Processes::NoFile if self.options.kernel_parameters.is_none() => {
                self.warn(PARAMETER, "not checked; give the guest's --kernel-parameters");
                return None;
            }
            Processes::NoFile => self.parameter(&format!("{PARAMETER}=")).map(str::to_owned),
        };
        let Some(value) = value else {
            // The agent's own default.
            return Some(3);
        };
        let level = PROCESSES.iter().position(|known| *known == value);
        if level.is_none() {
            let known = PROCESSES.join(", ");
            self.error(PARAMETER, format!("unknown value {value}; it is one of {known}"));
        }
        level
    }
}

/// Whether a unit has the hub's socket.
fn listens(unit: &Unit) -> bool {
    let by_command = unit.values("ExecStart").any(|command| {
        let words: Vec<&str> = command.split_whitespace().collect();
        let program = words.first().and_then(|word| word.rsplit('/').next());
        let listen = format!("unix:{SOCKET}");
        let named = words.windows(2).any(|pair| pair[0] == "--listen" && pair[1] == listen);
        let is_front = program == Some("imagepuller") && words.get(1) == Some(&"hub");
        let is_hub = program == Some("confidential-data-hub");
        let moved = words.iter().any(|word| word.ends_with("/upstream-cdh.toml"));
        named || (is_front && !words.contains(&"--listen")) || (is_hub && !moved)
    });
    by_command || unit.says("ListenStream", SOCKET)
}
