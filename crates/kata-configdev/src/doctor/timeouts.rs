//! Whether Kata waits long enough for a container whose image is pulled in the guest.

use node_installer::kata::Value;
use node_installer::kata::standing::Main;

use super::finding::{Finding, Severity};
use super::set::Set;

/// What Kata's Go runtime has by itself, in seconds, which is too short for images of any size; and
/// runtime-rs. Both as in Kata 4.1.0.
const GO_SECS: u64 = 60;
const RUST_SECS: u64 = 30;

/// The key of both runtimes.
const KEY: &str = "create_container_timeout";

/// Says of each main file that starts QEMU whether its time is too short.
pub fn check(set: &Set<'_>, findings: &mut Vec<Finding>) {
    for handler in &set.handlers {
        let mut found: Vec<Finding> = Vec::new();
        for main in handler.standing.mains.iter().filter(|main| main.starts_qemu) {
            let (secs, place) = limit(main);
            if secs > GO_SECS {
                continue;
            }
            let message = format!(
                "{KEY} is {secs} s, in which a container has to be there with its whole image \
                pulled in the guest; raise it, or set it for a pod by the annotation \
                io.katacontainers.config.runtime.{KEY}"
            );
            let (id, severity) = ("timeout-create-short", Severity::Warning);
            let finding = match place {
                Some((path, line)) => Finding::new(id, severity, path, message).at_line(line),
                None => Finding::new(id, severity, &handler.directory, message),
            };
            if !found.contains(&finding) {
                found.push(finding);
            }
        }
        findings.append(&mut found);
    }
}

/// How long the runtime waits, in seconds, and the file and line that say so.
fn limit(main: &Main) -> (u64, Option<(&str, usize)>) {
    let (table, by_itself) = match main.is_rust {
        true => ("agent", RUST_SECS),
        false => ("runtime", GO_SECS),
    };
    let said = main.value(table, KEY).and_then(|place| match place.value {
        // Zero is the default to both runtimes.
        Value::Number(secs) => Some((u64::try_from(secs).ok().filter(|secs| *secs > 0)?, place)),
        _ => None,
    });
    match said {
        Some((secs, place)) => (secs, Some((place.path.as_str(), place.line))),
        None => (by_itself, None),
    }
}
