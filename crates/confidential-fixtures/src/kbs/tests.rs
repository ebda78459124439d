//! Against recordings of Trustee's own server.

use super::*;
use crate::Exchange;

/// How far the guest of a recorded request had got.
#[derive(Clone, Copy)]
enum At {
    Nowhere,
    Challenged,
    Attested,
}

/// Status, body and headers that mean something are those of the real broker.
#[test]
fn refusals_are_those_of_the_real_broker() {
    for (name, at) in [
        ("auth-not-json", At::Nowhere),
        ("auth-tee-unknown", At::Nowhere),
        ("auth-version-new", At::Nowhere),
        ("auth-version-old", At::Nowhere),
        ("attest-expired-session", At::Nowhere),
        ("attest-no-session", At::Nowhere),
        ("attest-not-json", At::Challenged),
        ("attest-wrong-nonce", At::Challenged),
        ("attest-wrong-report-data", At::Challenged),
        ("resource-expired-session", At::Nowhere),
        ("resource-no-session", At::Nowhere),
        ("resource-not-attested", At::Challenged),
        ("resource-unknown-session", At::Nowhere),
        ("resource-malformed-character", At::Attested),
        ("resource-malformed-empty-part", At::Attested),
        ("resource-malformed-four-parts", At::Attested),
        ("resource-malformed-two-parts", At::Attested),
        ("resource-missing", At::Attested),
        ("resource-policy-deny", At::Attested),
        ("plugin-unknown", At::Attested),
        ("path-unknown", At::Attested),
        ("token-bad-signature", At::Nowhere),
        ("token-expired", At::Nowhere),
        ("token-garbage", At::Nowhere),
    ] {
        let exchange = Exchange::read(name).unwrap();
        let answer = state(&exchange, name, at).answer(&exchange.request);
        let text = String::from_utf8(answer.bytes.clone()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(answer.status(), exchange.answer.status(), "{name}");
        assert_eq!(body, exchange.body, "{name}");
        let head = head.to_lowercase();
        assert!(!head.contains("set-cookie") && !head.contains("content-type"), "{name}");
    }
}

/// Evidence that the real broker took is taken, and the session then gives what there is.
#[test]
fn what_the_real_broker_takes_is_taken() {
    let exchange = Exchange::read("attest-ok").unwrap();
    let state = state(&exchange, "attest-ok", At::Challenged);
    let answer = state.answer(&exchange.request);
    assert_eq!(answer.status(), 200);
    let cookie = exchange.request.header("cookie").unwrap();
    let text = String::from_utf8(answer.bytes).unwrap();
    assert!(text.contains(&format!("Set-Cookie: {cookie}; Expires=")), "{text}");
    for name in ["resource-ok-cookie", "token-and-cookie"] {
        let asked = Exchange::read(name).unwrap().request;
        assert_eq!(asked.header("cookie"), Some(cookie), "{name}");
        assert_eq!(state.answer(&asked).status(), 200, "{name}");
    }
    let exchange = Exchange::read("auth-ok").unwrap();
    let answer = String::from_utf8(state.answer(&exchange.request).bytes).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    for body in [body, &exchange.body] {
        let challenge: Value = serde_json::from_str(body).unwrap();
        assert_eq!(challenge["extra-params"], "", "{body}");
    }
}

/// A server at the point where the recorded one was.
fn state(exchange: &Exchange, name: &str, at: At) -> State {
    let vault = Vault::new()
        .with("default/misc/secret", "correct horse battery staple")
        .with("default/forbidden/x", "never");
    let state = State {
        vault: Mutex::new(vault),
        policy: Policy { refused: vec!["default/forbidden/x".to_owned()], ..Policy::default() },
        sessions: Mutex::default(),
        tokens: Mutex::default(),
    };
    let nonce = match name {
        "attest-wrong-nonce" => "another".to_owned(),
        _ => json_body(&exchange.request)
            .and_then(|body| Some(body["runtime-data"]["nonce"].as_str()?.to_owned()))
            .unwrap_or_default(),
    };
    let session = Session {
        nonce,
        key: matches!(at, At::Attested).then(|| secret_key().unwrap().public_key()),
        initdata: Value::Null,
        used: 0,
    };
    if !matches!(at, At::Nowhere) {
        let id = session_id(&exchange.request).unwrap();
        lock(&state.sessions).insert(id, session);
    }
    state
}
