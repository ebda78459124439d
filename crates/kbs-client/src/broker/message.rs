//! What guest and broker say to each other, as JSON; the challenge is in a file of its own.

use jose::PrivateKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Fault;

use super::challenge::Challenge;

/// The version of the protocol; a broker takes no other.
const VERSION: &str = "0.4.0";

/// The hashes that evidence may hold, as the protocol names them.
const HASHES: [&str; 3] = ["sha256", "sha384", "sha512"];

/// How much of a broker's name for an error is repeated.
const MAX_KIND_CHARS: usize = 100;

/// `Request`: opens a session for a guest of this kind.
pub fn request(tee: &str) -> Vec<u8> {
    let request = json!({
        "version": VERSION,
        "tee": tee,
        "extra-params": { "supported-hash-algorithms": HASHES },
    });
    request.to_string().into_bytes()
}

/// The public key of a session (RFC 7517), members in canonical order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublicKey {
    alg: String,
    crv: String,
    kty: String,
    x: String,
    y: String,
}

impl PublicKey {
    /// The public half of a session's key.
    pub fn of(key: &PrivateKey) -> Result<Self, Fault> {
        serde_json::from_value(key.public_jwk()?).map_err(|_| Fault::Unreachable {
            reason: "the guest's own public key cannot be written down".to_owned(),
        })
    }
}

/// `Attestation`: the evidence.
#[derive(Debug)]
pub struct Attestation(Value);

impl Attestation {
    /// Evidence for a challenge, of the TEE and of further devices. The evidence measures the
    /// initdata; where its text is there too, a broker's policy can look into it.
    pub fn new(
        challenge: &Challenge,
        key: &PublicKey,
        evidence: Value,
        devices: &str,
        initdata: Option<&str>,
    ) -> Self {
        Self(json!({
            "init-data": initdata.map(|body| json!({ "format": "toml", "body": body })),
            "runtime-data": { "nonce": challenge.nonce(), "tee-pubkey": key },
            "tee-evidence": { "primary_evidence": evidence, "additional_evidence": devices },
        }))
    }

    /// As it is sent.
    pub fn to_json(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }
}

/// Whether an answer holds a token, which says that the evidence was believed.
///
/// # Errors
///
/// [`Fault::Answer`] if it does not.
pub fn token_of(text: &[u8]) -> Result<(), Fault> {
    #[derive(Deserialize)]
    struct Attested {
        token: String,
    }
    match serde_json::from_slice::<Attested>(text) {
        Ok(attested) if !attested.token.is_empty() => Ok(()),
        _ => Err(Fault::Answer { rule: "is no result of an attestation" }),
    }
}

/// What an answer without success says.
#[derive(Debug, Default)]
pub struct ErrorKind {
    /// The last part of its type, if it consists of harmless characters.
    pub kind: Option<String>,
    /// Whether it is about the version of the protocol.
    pub is_version: bool,
}

/// Reads `ErrorInformation`: `type`, a URL of which the last part says something, and `detail`,
/// which is not repeated, because it may hold anything.
pub fn error_kind(text: &[u8]) -> ErrorKind {
    #[derive(Deserialize)]
    struct Information {
        #[serde(rename = "type", default)]
        kind: String,
        #[serde(default)]
        detail: String,
    }
    let Ok(information) = serde_json::from_slice::<Information>(text) else {
        return ErrorKind::default();
    };
    let last = information.kind.rsplit('/').next().unwrap_or_default();
    let is_word = !last.is_empty()
        && last.len() <= MAX_KIND_CHARS
        && last.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    ErrorKind {
        kind: is_word.then(|| last.to_owned()),
        is_version: information.detail.contains("Version Mismatch"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use confidential_fixtures::Exchange;

    #[test]
    fn attestation_has_the_protocols_members() {
        let challenge = Challenge::parse(br#"{"nonce": "n"}"#).unwrap();
        let key = PublicKey::of(&PrivateKey::generate_p256().unwrap()).unwrap();
        let text = Attestation::new(&challenge, &key, json!({"svn": "1"}), "", Some("a = 1"));
        let text = text.to_json();
        let read: Value = serde_json::from_slice(&text).unwrap();
        let expected = json!({
            "init-data": { "format": "toml", "body": "a = 1" },
            "runtime-data": { "nonce": "n", "tee-pubkey": key },
            "tee-evidence": { "primary_evidence": {"svn": "1"}, "additional_evidence": "" },
        });
        assert_eq!(read, expected);
        assert_eq!(read["runtime-data"]["tee-pubkey"]["alg"], "ECDH-ES+A256KW");
        assert!(read["runtime-data"]["tee-pubkey"].get("d").is_none());
        let request: Value = serde_json::from_slice(&request("tdx")).unwrap();
        let expected = json!({
            "version": "0.4.0",
            "tee": "tdx",
            "extra-params": { "supported-hash-algorithms": ["sha256", "sha384", "sha512"] },
        });
        assert_eq!(request, expected);
    }

    /// The real client's requests come out again, and what its evidence binds.
    #[test]
    fn attestation_is_that_of_the_real_client() {
        for name in ["p256", "p521", "initdata"] {
            let exchange = |step: &str| {
                let exchange = Exchange::read(&format!("client-{step}-{name}")).unwrap();
                serde_json::from_str::<Value>(&exchange.request.body).unwrap()
            };
            let mut asked: Value = serde_json::from_slice(&request("sample")).unwrap();
            let recorded = exchange("auth");
            // Of the hashes, the real client knows one more.
            let hashes = &recorded["extra-params"]["supported-hash-algorithms"];
            assert_eq!(hashes.as_array().unwrap()[..3], HASHES);
            asked["extra-params"] = recorded["extra-params"].clone();
            assert_eq!(asked, recorded, "{name}");

            let recorded = exchange("attest");
            let runtime = &recorded["runtime-data"];
            let challenge = json!({ "nonce": runtime["nonce"] }).to_string();
            let challenge = Challenge::parse(challenge.as_bytes()).unwrap();
            let key: PublicKey = serde_json::from_value(runtime["tee-pubkey"].clone()).unwrap();
            let evidence = &recorded["tee-evidence"]["primary_evidence"];
            let data = STANDARD.encode(challenge.report_data(&key, ""));
            assert_eq!(evidence["report_data"], data, "{name}");
            let initdata = recorded["init-data"]["body"].as_str();
            assert_eq!(initdata.is_some(), name == "initdata");
            let made = Attestation::new(&challenge, &key, evidence.clone(), "", initdata);
            let made: Value = serde_json::from_slice(&made.to_json()).unwrap();
            assert_eq!(made, recorded, "{name}");
        }
    }

    #[test]
    fn errors_are_named_but_never_repeated() {
        const PREFIX: &str = "https://github.com/confidential-containers/kbs/errors/";
        let long = format!("{PREFIX}{}", "a".repeat(MAX_KIND_CHARS + 1));
        for (kind, expected) in [
            (format!("{PREFIX}PolicyDeny").as_str(), Some("PolicyDeny")),
            ("TokenNotFound", Some("TokenNotFound")),
            (PREFIX, None),
            ("a/b c", None),
            ("a/b\\u001b[31m", None),
            ("a/\\u00e9", None),
            (&long, None),
        ] {
            let text = format!(r#"{{"type": "{kind}", "detail": "hunter2", "more": 1}}"#);
            let error = error_kind(text.as_bytes());
            assert_eq!(error.kind.as_deref(), expected, "{text}");
            assert!(!error.is_version);
        }
        let version =
            r#"{"type": "x", "detail": "KBS Client Protocol Version Mismatch: expect =0.5.0"}"#;
        assert!(error_kind(version.as_bytes()).is_version);
        for text in ["", "<html>", "[]", r#"{"type": 1}"#, r#"{"type": "a", "type": "b"}"#] {
            assert_eq!(error_kind(text.as_bytes()).kind, None, "{text}");
        }
    }

    #[test]
    fn attestation_ends_in_a_token() {
        assert!(token_of(br#"{"token": "a.b.c", "more": {}}"#).is_ok());
        for text in
            ["", "{}", r#"{"token": ""}"#, r#"{"token": 1}"#, r#"{"token": "a", "token": "b"}"#]
        {
            assert!(token_of(text.as_bytes()).is_err(), "{text}");
        }
    }
}
