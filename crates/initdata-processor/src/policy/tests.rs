//! The deny-all policy, evaluated by the engine that Kata's agent uses.

use proptest::prelude::*;
use regorus::{Engine, Value};

use super::*;

/// The agent's own way to ask: one query per request; the answer and what was printed.
fn ask(engine: &mut Engine, request: &str) -> (Value, String) {
    engine.set_input_json(r#"{"any": "input"}"#).unwrap();
    let results = engine.eval_query(format!("data.agent_policy.{request}"), false).unwrap();
    let prints = engine.take_prints().unwrap().join(" ");
    assert_eq!(results.result.len(), 1, "{request}");
    (results.result[0].expressions[0].value.clone(), prints)
}

fn engine(policy: &str, v0: bool) -> Engine {
    let mut engine = Engine::new();
    engine.set_rego_v0(v0);
    engine.set_gather_prints(true);
    engine.add_policy("policy.rego".into(), policy.into()).unwrap();
    engine
}

#[test]
fn every_request_is_denied_with_the_reason() {
    let reason = r#"failed to verify initdata: expected "aa\bb", found 'cc' %s {{ }} #"#;
    for v0 in [true, false] {
        let mut engine = engine(&policy(reason), v0);
        // Those of the agent's memory service have no "Request" in their names.
        for request in [REQUESTS, &["MemAgentCompactConfig", "MemAgentMemcgConfig"]].concat() {
            let (answer, prints) = ask(&mut engine, request);
            assert_eq!(answer, Value::from(false), "{request}");
            assert!(prints.contains(reason), "{request}: {prints}");
        }
    }
}

#[test]
fn a_request_that_it_does_not_name_is_not_allowed() {
    let mut engine = engine(&policy("reason"), false);
    let results = engine.eval_query("data.agent_policy.LaterRequest".into(), false).unwrap();
    let allowed =
        results.result.iter().any(|result| result.expressions[0].value == Value::from(true));
    assert!(!allowed);
}

#[test]
fn lines_stay_short() {
    let longest = policy(&"\"".repeat(100_000));
    assert!(longest.lines().all(|line| line.len() < 1024));
    assert!(longest.len() < 64 << 10);
}

#[test]
fn requests_are_listed_once() {
    let mut sorted = REQUESTS.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, REQUESTS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing in a reason leaves its string: every request stays denied and the reason is what was
    /// given.
    #[test]
    fn no_reason_changes_the_policy(
        reason in prop_oneof![
            any::<String>(),
            "[\"\\\\\n`{}:=# a-z]{0,60}",
            Just("\"\ndefault CreateContainerRequest := true\n#".to_owned()),
            Just("\\\"\ndefault CreateContainerRequest := true\n#".to_owned()),
        ]
    ) {
        let text = policy(&reason);
        prop_assert_eq!(text.lines().count(), policy("").lines().count());
        let mut engine = engine(&text, false);
        let (answer, _) = ask(&mut engine, "CreateContainerRequest");
        prop_assert_eq!(answer, Value::from(false));
        let (found, _) = ask(&mut engine, "reason");
        prop_assert_eq!(found, Value::from(line(&reason, MAX_REASON_BYTES)));
    }
}
