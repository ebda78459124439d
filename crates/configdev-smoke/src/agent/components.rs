//! The guest components that the agent starts before it connects (`launch_process` and
//! `launch_plan` of Kata 4.1).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::Console;
use crate::seen::Seen;

/// Where the agent starts the data hub from, and the socket that it removes before.
const HUB: &str = "/usr/local/bin/confidential-data-hub";
const HUB_SOCKET: &str = "/run/confidential-containers/cdh.sock";

/// `agent.guest_components_procs`: from the file that the agent is given, or from the kernel's
/// parameters, of which the last counts.
pub fn processes() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    let config = arguments.find(|argument| argument == "--config" || argument == "-c");
    if let Some(path) = config.and_then(|_| arguments.next()) {
        let text = fs::read_to_string(path).unwrap_or_default();
        return in_configuration(&text);
    }
    let parameters = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let key = "agent.guest_components_procs=";
    let words = parameters.split_whitespace();
    let mut values = words.filter_map(|word| word.strip_prefix(key));
    values.next_back().map(str::to_owned)
}

/// The key's value in the agent's configuration, a line of TOML before the first table.
fn in_configuration(text: &str) -> Option<String> {
    let top = text.lines().take_while(|line| !line.starts_with('['));
    let mut values = top.filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "guest_components_procs").then(|| value.trim().trim_matches('"'))
    });
    values.next().map(str::to_owned)
}

/// Does what the agent does with the hub's socket. Whether the agent then makes no connection.
pub fn start(processes: Option<&str>, socket: &str, console: &mut Console) -> bool {
    let starts_the_hub = !matches!(processes, Some("none" | "attestation-agent"));
    if socket != HUB_SOCKET || !starts_the_hub {
        return false;
    }
    let is_there = fs::metadata(HUB).is_ok_and(|stat| stat.permissions().mode() & 0o111 != 0);
    console.say(&Seen::Hub { is_there });
    if is_there {
        // Then it starts the hub, which makes its own.
        let _ = fs::remove_file(socket);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_it_before_its_first_table() {
        let value = |text| in_configuration(text);
        assert_eq!(
            value("log_level = \"info\"\nguest_components_procs = \"none\"\n").as_deref(),
            Some("none")
        );
        assert_eq!(value("[x]\nguest_components_procs = \"none\"\n"), None);
    }
}
