//! Invariant: what is accepted is what serde_json reads, value by value; what only serde_json reads
//! breaks a rule that it does not have.
#![cfg_attr(fuzzing, no_main)]

use foreign_text::json::{Duplicates, JsonRule, Kind, Limits, Value, read};

const LIMITS: Limits = Limits { bytes: 1 << 16, values: 4096, depth: 127 };

fn is_same(ours: &Value, other: &serde_json::Value) -> bool {
    match (&ours.kind, other) {
        (Kind::Null, serde_json::Value::Null) => true,
        (Kind::Bool(ours), serde_json::Value::Bool(other)) => ours == other,
        (Kind::Number(ours), serde_json::Value::Number(other)) => {
            serde_json::from_str::<serde_json::Number>(ours).is_ok_and(|ours| ours == *other)
        }
        (Kind::Text(ours), serde_json::Value::String(other)) => **ours == **other,
        (Kind::Array(ours), serde_json::Value::Array(other)) => {
            let mut pairs = ours.iter().zip(other);
            ours.len() == other.len() && pairs.all(|(ours, other)| is_same(ours, other))
        }
        (Kind::Object(ours), serde_json::Value::Object(other)) => {
            let is_last = |(name, other): (&String, _)| {
                ours.last(name).is_some_and(|last| is_same(last, other))
            };
            ours.members().all(|(name, _)| other.contains_key(name)) && other.iter().all(is_last)
        }
        _ => false,
    }
}

fuzzing::target!(|bytes: &[u8]| {
    let other = serde_json::from_slice::<serde_json::Value>(bytes);
    let kept = read(bytes, LIMITS, Duplicates::Kept);
    match (&kept, &other) {
        (Ok(ours), Ok(other)) => assert!(is_same(ours, other)),
        (Ok(_), Err(error)) => panic!("only we read it: {error}"),
        (Err(error), Ok(_)) => assert!(
            matches!(
                error.rule,
                JsonRule::TooLong { .. }
                    | JsonRule::TooManyValues(_)
                    | JsonRule::Syntax("a number is too large")
            ),
            "{error}"
        ),
        (Err(_), Err(_)) => {}
    }
    match (read(bytes, LIMITS, Duplicates::Refused), kept) {
        (Ok(ours), kept) => {
            assert!(kept.is_ok() && other.is_ok_and(|other| is_same(&ours, &other)));
        }
        (Err(error), Ok(_)) => assert!(matches!(error.rule, JsonRule::Twice(_)), "{error}"),
        (Err(error), Err(_)) => assert!(error.to_string().len() < 2000, "{error}"),
    }
});
