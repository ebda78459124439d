//! Which rule is followed, and scripts as JSON.

use super::start;
use crate::{Action, Login, Rule, Script, What};

#[test]
fn rules_count_their_own_requests() {
    let script = Script::new().times(What::Layer(0), 2..=3, [Action::status(500)]).times(
        What::Any,
        4..,
        [Action::status(429)],
    );
    let site = start(script);
    let statuses: Vec<_> = [
        site.layer_path(),
        site.manifest_path(),
        site.layer_path(),
        site.layer_path(),
        site.layer_path(),
    ]
    .iter()
    .map(|path| {
        let (received, _) = site.ask(path, "");
        String::from_utf8_lossy(&received)[9..12].to_owned()
    })
    .collect();
    assert_eq!(statuses, ["200", "200", "500", "500", "429"]);
}

#[test]
fn challenges_have_their_own_rules() {
    let mut rule = Rule::new(What::Any, 1..=1, [Action::status(502)]);
    rule.before_login = true;
    let site = start(Script::new().login(Login::basic("u", "p")).rule(rule));
    let status = || site.ask("/v2/", "").0[9..12].to_vec();
    assert_eq!(status(), b"502");
    assert_eq!(status(), b"401");
}

#[test]
fn scripts_are_json() {
    let script: Script = serde_json::from_str(
        r#"{
            "login": {"username": "u", "password": "p", "token": "t"},
            "connections": [{"first": 1, "last": 1, "how": "reset"}],
            "rules": [
                {"what": {"layer": 0}, "method": "GET", "last": 1, "do": [{"cut": {"at": {"body": 1000}, "how": "close"}}]},
                {"what": "any", "before-login": true, "do": ["schema1", {"http2": {"go-away": {"code": 0, "after": 0}}}]},
                {"what": {"path": "/x"}, "do": [{"body": "endless"}, {"interim": null}, {"range": "other-start"}]},
                {"what": "token", "do": [{"status": {"code": 500}}, {"header": {"name": "A", "value": null}}]}
            ]
        }"#,
    )
    .unwrap();
    assert_eq!(script.rules.len(), 4);
    assert!(script.rules[1].before_login);
    let rule = &script.rules[0];
    assert_eq!((rule.first, rule.last, rule.what.clone()), (1, Some(1), What::Layer(0)));
    assert!(!format!("{script:?}").contains("\"p\""));
    for wrong in [
        r#"{"rulez": []}"#,
        r#"{"rules": [{"what": "layer", "do": []}]}"#,
        r#"{"rules": [{"what": "any", "do": ["explode"]}]}"#,
        r#"{"rules": [{"what": "any", "times": 3, "do": []}]}"#,
    ] {
        assert!(serde_json::from_str::<Script>(wrong).is_err(), "{wrong}");
    }
}
