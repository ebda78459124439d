//! What Trustee's broker really answered, put to the client: what it makes of each answer, and how
//! often it asks then.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use confidential_fixtures::{Exchange, recorded};
use puller_config::{ResourceUri, Resources};
use serde_json::{Value, json};
use support::{PATIENT, broker, client, inside, new_client, resources, run, shown, uri, wait};
use test_http::{Answer, Request, Server};

/// All that a pull's error says of a broker's refusal.
const OUTSIDE: &str = "gave nothing usable to this guest";

/// The secret in every answer that has one.
const SECRET: &[u8] = b"correct horse battery staple";

const EVIDENCE: &str = "\"AttestationError\": the evidence was not taken";
const KEY: &str = "answered with what the guest's key does not open";
const MISSING: &str = "\"PluginInternalError\": the broker has no such resource, or cannot read it";
const POLICY: &str =
    "\"PolicyDeny\": the broker's policy does not give this resource to this guest";
const SESSION: &str = "\"TokenNotFound\": the broker does not take the session or token";
const START: &str = "\"AttestationError\": the broker does not begin";
const TOKEN: &str = "\"TokenVerifierError\": the broker does not take the session or token";
const VERSION: &str = "\"AttestationError\": the broker speaks another version of its protocol";

/// For each exchange: how often the client asks for a challenge, for a session and for the
/// resource, and the reason that its log gives. What a good answer holds is closed for the key of
/// the guest that was recorded.
const ROWS: &[(&str, [usize; 3], &str)] = &[
    ("attest-expired-session", [2, 2, 0], EVIDENCE),
    ("attest-no-session", [2, 2, 0], EVIDENCE),
    ("attest-not-json", [2, 2, 0], EVIDENCE),
    ("attest-ok", [1, 1, 1], KEY),
    ("attest-wrong-nonce", [2, 2, 0], EVIDENCE),
    ("attest-wrong-report-data", [2, 2, 0], EVIDENCE),
    ("auth-no-common-hash", [1, 1, 1], KEY),
    ("auth-not-json", [1, 0, 0], START),
    ("auth-ok", [1, 1, 1], KEY),
    ("auth-tee-unknown", [1, 0, 0], START),
    ("auth-version-new", [1, 0, 0], VERSION),
    ("auth-version-old", [1, 0, 0], VERSION),
    ("client-attest-initdata", [1, 1, 1], KEY),
    ("client-attest-p256", [1, 1, 1], KEY),
    ("client-attest-p521", [1, 1, 1], KEY),
    ("client-attest-rsa", [1, 1, 1], KEY),
    ("client-auth-initdata", [1, 1, 1], KEY),
    ("client-auth-p256", [1, 1, 1], KEY),
    ("client-auth-p521", [1, 1, 1], KEY),
    ("client-auth-rsa", [1, 1, 1], KEY),
    ("path-unknown", [1, 1, 1], "404: no broker of this protocol lives at this address"),
    ("plugin-unknown", [1, 1, 1], "\"PluginNotFound\": the broker has no such plugin"),
    ("resource-default-policy-deny", [1, 1, 1], POLICY),
    ("resource-expired-session", [2, 2, 2], SESSION),
    ("resource-malformed-character", [1, 1, 1], MISSING),
    ("resource-malformed-empty-part", [1, 1, 1], MISSING),
    ("resource-malformed-four-parts", [1, 1, 1], MISSING),
    ("resource-malformed-two-parts", [1, 1, 1], MISSING),
    ("resource-missing", [1, 1, 1], MISSING),
    ("resource-no-session", [2, 2, 2], SESSION),
    ("resource-not-attested", [2, 2, 2], SESSION),
    ("resource-ok-bearer", [1, 1, 1], KEY),
    ("resource-ok-bearer-p521", [1, 1, 1], KEY),
    ("resource-ok-bearer-rsa", [1, 1, 1], KEY),
    ("resource-ok-cookie", [1, 1, 1], KEY),
    ("resource-ok-empty", [1, 1, 1], KEY),
    ("resource-policy-deny", [1, 1, 1], POLICY),
    ("resource-unknown-session", [2, 2, 2], SESSION),
    ("token-and-cookie", [1, 1, 1], KEY),
    ("token-bad-signature", [2, 2, 2], TOKEN),
    ("token-expired", [2, 2, 2], TOKEN),
    ("token-garbage", [2, 2, 2], TOKEN),
    ("token-of-another-broker", [1, 1, 1], KEY),
];

/// A broker answered a denied or missing resource with 401, and every 401 cost a hand-shake once.
#[test]
fn a_brokers_refusal_is_judged_by_its_type() {
    let names: Vec<&str> = ROWS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, Exchange::names().unwrap());
    for (name, counts, why) in ROWS {
        let exchange = Exchange::read(name).unwrap();
        let asked = asked_for(&exchange.request.target);
        let is_malformed = name.contains("malformed");
        assert_eq!(asked.is_none(), is_malformed, "{name}: refused before asking");

        let server = replay(&exchange);
        let client = client(&[&broker(&server)], PATIENT);
        let asked = asked.unwrap_or_else(|| uri("default/misc/secret"));
        let error = wait(client.resource(&asked)).unwrap_err();
        let (text, inside) = (shown(&error), inside(&error));
        assert!(inside.contains(why), "{name}: {inside}");
        if exchange.answer.status() != 200 {
            assert!(text.ends_with(OUTSIDE), "{name}: {text}");
        }
        let requests = server.requests();
        let count = |step| requests.iter().filter(|asked| part(&asked.target) == step).count();
        assert_eq!([AUTH, ATTEST, RESOURCE].map(count), *counts, "{name}");
    }
}

/// Behind an ingress, and under the guest's own name.
#[test]
fn a_broker_may_live_below_a_path() {
    let server = Server::start(None, |asked| match asked.target.strip_prefix("/tenant/a") {
        Some(target) => answer_of(part(target)),
        None => answer_of("path-unknown"),
    });
    let below = |host| format!("kbs=http://{host}:{}/tenant/a", server.port);
    for (source, why) in [
        (below("127.0.0.1"), KEY),
        (below("localhost") + "/", KEY),
        (broker(&server), "404: no broker of this protocol lives at this address"),
    ] {
        let client = client(&[&source], PATIENT);
        let error = wait(client.resource(&uri("default/misc/secret"))).unwrap_err();
        assert!(inside(&error).contains(why), "{source}: {}", inside(&error));
    }
}

const AUTH: &str = "auth-ok";
const ATTEST: &str = "attest-ok";
const RESOURCE: &str = "resource-ok-cookie";

/// The good exchange of the step that a path belongs to.
fn part(target: &str) -> &'static str {
    match target {
        "/kbs/v0/auth" => AUTH,
        "/kbs/v0/attest" => ATTEST,
        _ => RESOURCE,
    }
}

/// A broker that answers as in `exchange` at that step, and well at the others.
fn replay(exchange: &Exchange) -> Server {
    let (step, answer) = (part(&exchange.request.target), exchange.answer.clone());
    Server::start(None, move |asked| match part(&asked.target) {
        part if part == step => answer.clone(),
        part => answer_of(part),
    })
}

fn answer_of(name: &str) -> Answer {
    Exchange::read(name).unwrap().answer
}

/// What a path asks for; `None` where no URI can name that.
fn asked_for(target: &str) -> Option<ResourceUri> {
    let Some((plugin, path)) =
        target.strip_prefix("/kbs/v0/").and_then(|path| path.split_once('/'))
    else {
        return Some(uri("default/misc/secret"));
    };
    let plugin = match plugin {
        "resource" => String::new(),
        other => format!("+{other}"),
    };
    ResourceUri::parse(&format!("kbs{plugin}:///{path}")).ok()
}

/// A file with a token, and a client that shows it to a broker.
fn with_token(text: &str, answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Token {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, text).unwrap();
    let server = Server::start(None, answer);
    Token { file, server }
}

struct Token {
    file: tempfile::NamedTempFile,
    server: Server,
}

impl Token {
    fn ask(&self) -> Result<Vec<u8>, String> {
        let resources = Resources {
            kbs_token_file: Some(self.file.path().to_owned()),
            ..resources(&[&broker(&self.server)])
        };
        let client = new_client(&resources, PATIENT).unwrap();
        run(client.resource(&uri("default/misc/secret")))
    }
}

/// A token file with the key of the guest that was recorded.
fn token_file(token: &str) -> String {
    let pem = recorded("kbs/tee-key-p256.pem").unwrap();
    json!({"token": token, "tee_keypair": pem}).to_string()
}

#[test]
fn what_a_broker_closed_for_the_guest_is_opened() {
    for name in ["resource-ok-bearer", "resource-ok-cookie", "token-and-cookie"] {
        let answer = answer_of(name);
        let token = with_token(&token_file("a.b.c"), move |_| answer.clone());
        assert_eq!(token.ask().unwrap(), SECRET, "{name}");
    }
    let token = with_token(&token_file("a.b.c"), |_| answer_of("resource-ok-empty"));
    let error = token.ask().unwrap_err();
    assert!(error.contains("is empty, which no secret is"), "{error}");
}

/// PKCS#8 for EC keys, PKCS#1 for RSA.
#[test]
fn files_of_the_attestation_agent_are_token_files() {
    for (name, answer, is_opened) in [
        ("p521", "resource-ok-bearer-p521", true),
        ("rsa", "resource-ok-bearer-rsa", true),
        // No answer was recorded for these two keys.
        ("p256", "resource-ok-bearer", false),
        ("p256-initdata", "resource-ok-bearer", false),
    ] {
        let file = recorded(&format!("tokens/{name}.json")).unwrap();
        let token = with_token(&file, move |_| answer_of(answer));
        match token.ask() {
            Ok(secret) => assert!(is_opened && secret == SECRET, "{name}"),
            Err(error) => assert!(!is_opened && error.contains(KEY), "{name}: {error}"),
        }
        let file: Value = serde_json::from_str(&file).unwrap();
        let sent = file["token"].as_str().unwrap();
        let asked = token.server.requests();
        assert_eq!(asked[0].header("authorization"), Some(&*format!("Bearer {sent}")));
        assert_eq!(asked.len(), 1, "{name}");
        if !is_opened {
            let key = file["tee_keypair"].as_str().unwrap();
            let key = jose::PrivateKey::read(key.as_bytes(), None).unwrap();
            let public = key.public_jwk().unwrap();
            let named = named_key(sent);
            assert_eq!([&public["x"], &public["y"]], [&named["x"], &named["y"]], "{name}");
        }
    }
}

/// The key that a token is for.
fn named_key(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    let evidence = &claims["submods"]["cpu0"]["ear.veraison.annotated-evidence"];
    evidence["runtime_data_claims"]["tee-pubkey"].clone()
}

/// A token that is not taken is read again, because another program writes the next one; the same
/// one is not sent twice.
#[test]
fn token_that_is_over_is_read_again_once() {
    for name in ["token-expired", "token-garbage", "token-bad-signature", "resource-no-session"] {
        let answer = answer_of(name);
        let same = with_token(&token_file("a.b.c"), move |_| answer.clone());
        assert!(same.ask().unwrap_err().ends_with(OUTSIDE), "{name}");
        assert_eq!(same.server.requests().len(), 1, "{name}");
    }
    for (good_from, expected) in [(1, Ok(SECRET.to_vec())), (2, Err(()))] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let asked = AtomicUsize::new(0);
        let server = Server::start(None, move |_| {
            let asked = asked.fetch_add(1, Ordering::SeqCst);
            std::fs::write(&path, token_file(&format!("next.{asked}"))).unwrap();
            match asked {
                few if few < good_from => answer_of("token-expired"),
                _ => answer_of("resource-ok-bearer"),
            }
        });
        std::fs::write(&file, token_file("first")).unwrap();
        let token = Token { file, server };
        assert_eq!(token.ask().map_err(|_| ()), expected, "{good_from}");
        assert_eq!(token.server.requests().len(), 2, "{good_from}");
    }
}
