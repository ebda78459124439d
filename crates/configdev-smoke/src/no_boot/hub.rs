//! Who listens where the agent asks for images, and which guest components the agent starts.
//!
//! Kata's agent reads its configuration so (4.1.0, `src/agent/src/config.rs`): a file replaces all
//! `agent.*` parameters of the kernel, and one that is not there or cannot be read ends the agent.

use initdata_processor::settings::AcceptedDisk;

use super::boot::{AGENT, code};
use super::unit::Unit;
use super::{ATTESTATION_AGENT, Check};
use crate::options::CDH_SOCKET as SOCKET;

const PARAMETER: &str = "agent.guest_components_procs";
/// The same with what stands before its value.
pub const KEY: &str = "agent.guest_components_procs=";

/// The verified initdata's entry.
const MEASURED: &str = "/run/measured-cfg/agent.toml";

impl Check<'_> {
    pub fn hub(&self) {
        if !self.agent.asks_the_hub {
            return;
        }
        let listening = self.units.iter().filter(|(_, unit)| listens(unit));
        let mut owners: Vec<&str> = listening.map(|(name, _)| name.as_str()).collect();
        let script = self.script.as_deref().unwrap_or_default();
        if script.contains("imagepuller hub") || script.contains(SOCKET) {
            owners.push("the first program");
        }
        match owners.as_slice() {
            [_] => {}
            [] => self.error(
                SOCKET,
                "nobody listens there, and the agent asks for images on it; see docs/guest.md",
            ),
            several => {
                self.error(SOCKET, format!("several listen there: {}", several.join(", ")));
            }
        }
        match self.processes().as_deref() {
            None | Some("none") => {}
            Some("attestation-agent") => self.attestation_agent(),
            Some(value) => self.error(
                PARAMETER,
                format!(
                    "with {value} the agent takes the socket away and starts a data hub of its \
                     own, or finds none and ends at the first pull; say none or attestation-agent"
                ),
            ),
        }
    }

    /// Whether the one that the agent starts is there, only once, and with initdata.
    fn attestation_agent(&self) {
        if !self.tree.is_program(ATTESTATION_AGENT) {
            let text = format!(
                "/{ATTESTATION_AGENT} is not there, so the agent starts nothing and ends at the \
                first pull; say none"
            );
            self.error(PARAMETER, text);
        }
        let unit = "attestation-agent.service";
        if self.units.contains_key(unit) {
            self.error(PARAMETER, format!("the agent starts one beside {unit}; say none"));
        }
        let disk = self.settings.accepted_disk;
        if !self.agent.looks_for_initdata || disk == AcceptedDisk::Remove {
            self.warn(
                PARAMETER,
                "the agent starts the attestation agent without initdata, so tokens bind none; \
                say accepted-disk = \"copy\", or none with a unit (docs/guest.md)",
            );
        }
    }

    /// What the agent starts; `None` where that is not known.
    fn processes(&self) -> Option<String> {
        let value = match self.configuration() {
            Some(path) => self.in_configuration(&path)?,
            None if self.options.append.is_none() => {
                self.warn(PARAMETER, "not checked; give the guest's parameters with --append");
                return None;
            }
            None => self.parameter(KEY).map(str::to_owned),
        };
        // The agent's own default.
        Some(value.unwrap_or_else(|| "api-server-rest".to_owned()))
    }

    /// The file that takes the place of the kernel's parameters, where the image has one.
    fn configuration(&self) -> Option<String> {
        let (place, command) = match (&self.script, self.units.get(AGENT)) {
            (Some(text), _) => ("init", code(text).rfind(|line| line.contains("exec "))),
            (None, Some(unit)) => (AGENT, unit.values("ExecStart").last()),
            (None, None) => return None,
        };
        let words: Vec<&str> = command.unwrap_or_default().split_whitespace().collect();
        let is_joined = |word: &&&str| word.starts_with("--config=") || word.starts_with("-c=");
        if let Some(word) = words.iter().find(is_joined) {
            let text = format!("the agent ignores {word}; write it as two words");
            self.error(place, text);
        }
        // A shell's `-c`, or a path that only the guest knows.
        let named = config_file(&words).filter(|path| path.starts_with('/'));
        let path = named.or_else(|| self.parameter("agent.config_file="))?;
        if path != MEASURED {
            return Some(path.to_owned());
        }
        if named.is_none() || words.first().is_some_and(|word| word.ends_with("kata-agent")) {
            let text = format!(
                "without {MEASURED} the agent ends, and few pods have it; see \
                deploy/guest/optional/agent-config.conf"
            );
            self.error(place, text);
        }
        None
    }

    /// The word of the file; `None` where something is wrong with it, `Some(None)` where it has
    /// none.
    fn in_configuration(&self, path: &str) -> Option<Option<String>> {
        let text = self.text(path);
        let value = text.as_deref().and_then(configured);
        if value.is_none() {
            let why = match text {
                None => "there is no such configuration, so the agent ends",
                Some(_) => "is not TOML, so the agent ends",
            };
            self.error(path, why);
        }
        value
    }
}

/// The agent's configuration on guest components; `None` where it is not TOML. Not the error: that
/// quotes the file.
#[must_use]
pub fn configured(text: &str) -> Option<Option<String>> {
    let table: toml::Table = text.parse().ok()?;
    let value = table.get("guest_components_procs");
    Some(value.and_then(|value| value.as_str()).map(Into::into))
}

/// The file that the agent's words name.
#[must_use]
pub fn config_file<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut pairs = words.windows(2);
    pairs.find_map(|pair| matches!(pair[0], "--config" | "-c").then_some(pair[1]))
}

/// Whether a unit has the hub's socket.
fn listens(unit: &Unit) -> bool {
    let by_command = unit.values("ExecStart").any(|command| {
        let has = |words: &str| command.contains(words);
        has(&format!("--listen unix:{SOCKET}"))
            || has("imagepuller hub") && !has("--listen ")
            || has("/confidential-data-hub") && !has("/upstream-cdh.toml")
    });
    by_command || unit.says("ListenStream", SOCKET)
}
