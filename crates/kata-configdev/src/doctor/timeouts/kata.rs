//! The limits of a handler: those of its runtime, its agent and the container engine.

use std::time::Duration;

use foreign_text::shown;
use node_installer::kata::Value;
use node_installer::kata::standing::{Main, Place};

use super::{Ends, Timeout};
use crate::doctor::engine::Engine;
use crate::doctor::handlers::Handler;

/// The unit of a number in a file.
#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Milliseconds,
}

/// A key of Kata's: the kind of its table, its name, unit and default.
struct Key(&'static str, &'static str, Unit, u64);

/// Of each runtime, what a container with its pulls may take, and how long the guest may boot.
const GO: [(Key, Ends, &str); 2] = [
    (Key("runtime", "create_container_timeout", Unit::Seconds, 60), Ends::Pull, CREATE),
    (Key("agent", "dial_timeout", Unit::Seconds, 30), Ends::Boot, BOOT),
];
const RUST: [(Key, Ends, &str); 4] = [
    (Key("agent", "create_container_timeout", Unit::Seconds, 30), Ends::Pull, CREATE),
    (Key("agent", "reconnect_timeout_ms", Unit::Milliseconds, 3_000), Ends::Boot, BOOT),
    (Key("agent", "dial_timeout_ms", Unit::Milliseconds, 10), Ends::Other, "one attempt of these"),
    (
        Key("agent", "request_timeout_ms", Unit::Milliseconds, 30_000),
        Ends::Other,
        "every other request of the agent ends, such as that for a sandbox",
    ),
];

const CREATE: &str = "the container fails, and the pod's event names the time-out";
/// How long runtime-rs waits for QEMU's monitor, and so for the wrapper. No key changes it.
pub(super) const MONITOR_OF_RUST: Duration = Duration::from_secs(50);

const BOOT: &str = "the sandbox fails, because the guest's agent does not answer";

/// The agent's own limit, as a kernel parameter in seconds, and its default.
const AGENT: (&str, u64) = ("agent.image_pull_timeout", 1200);

/// The limits of every main file that starts QEMU; equal ones once.
pub(super) fn limits(engine: &Engine, handler: &Handler) -> Vec<Timeout> {
    let name = shown(handler.directory.as_os_str().as_encoded_bytes()).to_string();
    let mut limits: Vec<Timeout> = Vec::new();
    let mut put = |timeout: Timeout| {
        if !limits.contains(&timeout) {
            limits.push(timeout);
        }
    };
    for main in handler.standing.mains.iter().filter(|main| main.starts_qemu) {
        let who = if main.is_rust { "runtime-rs" } else { "Kata (Go)" };
        let keys = if main.is_rust { &RUST[..] } else { &GO };
        for (key, ends, then) in keys {
            put(of_key(&name, who, main, key, *ends, then));
        }
        if main.is_rust {
            put(Timeout {
                handler: Some(name.clone()),
                who,
                key: "wait for QEMU's monitor",
                limit: MONITOR_OF_RUST,
                ends: Ends::Boot,
                path: None,
                line: 0,
                then: "the sandbox fails with \"timed out waiting for QMP ready\"",
            });
        }
        put(of_agent(&name, main));
    }
    for runtime in engine.of(handler) {
        if let Some(limit) = &runtime.create_timeout {
            put(Timeout {
                handler: Some(name.clone()),
                who: runtime.engine.title(),
                key: "container_create_timeout",
                limit: Duration::from_secs(limit.secs),
                ends: Ends::Pull,
                path: limit.place.as_ref().map(|(path, _)| path.clone()),
                line: limit.place.as_ref().map_or(0, |(_, line)| *line),
                then: CREATE,
            });
        }
    }
    limits
}

fn of_key(
    handler: &str,
    who: &'static str,
    main: &Main,
    key: &Key,
    ends: Ends,
    then: &'static str,
) -> Timeout {
    let Key(kind, name, unit, default) = *key;
    let number = |place: &Place<Value>| match place.value {
        // Zero is the default to both runtimes.
        Value::Number(number) => u64::try_from(number).ok().filter(|number| *number > 0),
        _ => None,
    };
    let place = main.value(kind, name);
    let found = place.and_then(|place| Some((place, number(place)?)));
    let number = found.map_or(default, |(_, number)| number);
    Timeout {
        handler: Some(handler.to_owned()),
        who,
        key: name,
        limit: match unit {
            Unit::Seconds => Duration::from_secs(number),
            Unit::Milliseconds => Duration::from_millis(number),
        },
        ends,
        path: found.map(|(place, _)| place.path.clone()),
        line: found.map_or(0, |(place, _)| place.line),
        then,
    }
}

fn of_agent(handler: &str, main: &Main) -> Timeout {
    let place = main.value("hypervisor", "kernel_params");
    let found = place.and_then(|place| {
        let Value::Text(text) = &place.value else {
            return None;
        };
        let mut words = text.split_whitespace().rev();
        let value = words.find_map(|word| word.strip_prefix(AGENT.0)?.strip_prefix('='))?;
        Some((place, value.parse::<u64>().ok()?))
    });
    Timeout {
        handler: Some(handler.to_owned()),
        who: "kata-agent",
        key: AGENT.0,
        limit: Duration::from_secs(found.map_or(AGENT.1, |(_, secs)| secs)),
        ends: Ends::Pull,
        path: found.map(|(place, _)| place.path.clone()),
        line: found.map_or(0, |(place, _)| place.line),
        then: "the pull fails in the guest",
    }
}
