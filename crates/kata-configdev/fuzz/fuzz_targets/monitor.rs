//! Invariant: any bytes are a command of QEMU's monitor or none; a command is refused with one line
//! of JSON that has its `id`, if that is a text or a number, and the reason.
#![cfg_attr(fuzzing, no_main)]

use kata_configdev::refusal::command::{Command, MAX_ASKED_BYTES};
use serde_json::Value;

fuzzing::target!(|bytes: &[u8]| {
    let Some(command) = Command::parse(bytes) else {
        return;
    };
    assert!(bytes.len() <= MAX_ASKED_BYTES);
    let line = command.refused("a \"reason\"");
    assert_eq!(line.find('\n'), Some(line.len() - 1));
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(answer["error"]["desc"], "a \"reason\"");
    let asked: Value = serde_json::from_slice(bytes).expect("JSON");
    assert_eq!(command.is_first, asked["execute"] == "qmp_capabilities");
    match &asked["id"] {
        id @ (Value::String(_) | Value::Number(_)) => assert_eq!(answer["id"], *id),
        _ => assert!(answer.get("id").is_none()),
    }
});
