//! The agent's own configuration, where it is a file.
//!
//! As Kata's agent reads it (4.1.0, `src/agent/src/config.rs`): a file replaces all `agent.*`
//! parameters of the kernel, and one that is not there or cannot be read ends the agent.

use super::Check;
use super::boot::{Boot, code};

/// The verified initdata's entry.
const MEASURED: &str = "/run/measured-cfg/agent.toml";

/// The kernel's parameter for the same.
const PARAMETER: &str = "agent.config_file=";

/// What the file says about guest components.
#[derive(Debug, PartialEq, Eq)]
pub enum Processes {
    /// There is no file; the kernel's parameters count.
    NoFile,
    /// There is a file, and something is wrong with it.
    Unknown,
    /// The file's word; `None`: the agent's default.
    Says(Option<String>),
}

impl Check<'_> {
    /// Reads the configuration that the image gives its agent.
    pub fn configured_processes(&mut self, boot: &Boot) -> Processes {
        let (subject, command) = match boot {
            Boot::Units(units) => {
                let unit = units.get("kata-agent.service");
                let last = unit.and_then(|unit| unit.values("ExecStart").last());
                ("kata-agent.service", last.unwrap_or_default().to_owned())
            }
            Boot::Script(text) => {
                let start = code(text).filter(|line| line.contains("exec ")).last();
                ("init", start.unwrap_or_default().to_owned())
            }
            Boot::Unknown => return Processes::NoFile,
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        let is_joined = |word: &&str| word.starts_with("--config=") || word.starts_with("-c=");
        if let Some(word) = words.iter().find(|word| is_joined(word)) {
            let text = format!("the agent ignores {word}; write it as two words");
            self.error(subject, text);
        }
        let mut pairs = words.windows(2);
        let named = pairs.find_map(|pair| matches!(pair[0], "--config" | "-c").then_some(pair[1]));
        // A shell's `-c`, or a path that only the guest knows.
        let named = named.filter(|path| path.starts_with('/'));
        let is_agent = words.first().is_some_and(|word| word.ends_with("kata-agent"));
        match named.or_else(|| self.parameter(PARAMETER)).map(str::to_owned) {
            Some(path) if path == MEASURED => {
                if is_agent || named.is_none() {
                    self.error(
                        subject,
                        format!(
                            "without {MEASURED} the agent ends, and few pods have it; see \
                            deploy/guest/optional/agent-config.conf"
                        ),
                    );
                }
                Processes::NoFile
            }
            Some(path) => self.configuration_file(&path),
            None => Processes::NoFile,
        }
    }

    fn configuration_file(&mut self, path: &str) -> Processes {
        let Some(text) = self.text(path) else {
            self.error(path, "there is no such configuration, so the agent ends");
            return Processes::Unknown;
        };
        match text.parse::<toml::Table>() {
            Ok(table) => {
                let value = table.get("guest_components_procs");
                Processes::Says(value.and_then(|value| value.as_str()).map(str::to_owned))
            }
            // Not the error itself: it quotes the file.
            Err(_) => {
                self.error(path, "is not TOML, so the agent ends");
                Processes::Unknown
            }
        }
    }
}
