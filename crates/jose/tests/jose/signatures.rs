//! Messages that RFC 7515 and jwcrypto signed are believed; what was changed, or signed in another
//! way, is not.

use jose::{Jws, JwsError, VerifyingKey};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Peer, decode, encode};

/// RFC 7515 appendix A.3.
const TEXT: &str = concat!(
    "eyJhbGciOiJFUzI1NiJ9.",
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19",
    "yb290Ijp0cnVlfQ.",
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
);

fn jwk() -> Value {
    json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    })
}

fn key() -> VerifyingKey {
    VerifyingKey::from_jwk(jwk().to_string().as_bytes()).unwrap()
}

fn parts() -> [Vec<u8>; 3] {
    let mut parts = TEXT.split('.').map(decode);
    std::array::from_fn(|_| parts.next().unwrap())
}

fn with_header(header: &str) -> String {
    let (_, rest) = TEXT.split_once('.').unwrap();
    format!("{}.{rest}", encode(header))
}

#[test]
fn what_the_rfc_signed_is_believed() {
    let message = Jws::parse_compact(TEXT.as_bytes()).unwrap();
    assert_eq!(message.kid(), None);
    assert_eq!(message.verify(&key()).unwrap(), parts()[1]);
}

#[test]
fn what_jwcrypto_signs_is_believed() {
    let Some(peer) = Peer::ask() else { return };
    let signed = peer.0["signed"].as_array().unwrap();
    let text = |index: usize| signed[index]["text"].as_str().unwrap().as_bytes();
    let own = signed[0]["key"].as_str().unwrap().as_bytes();
    let own = VerifyingKey::from_jwk(own).unwrap();
    let message = Jws::parse_compact(text(0)).unwrap();
    assert_eq!(message.kid(), Some("kbs:///a/b/c"));
    assert_eq!(message.verify(&own).unwrap(), peer.plain());
    assert_eq!(message.verify(&key()), Err(JwsError::Forged));
    for (index, algorithm) in [(1, "ES384"), (2, "ES512")] {
        let error = Jws::parse_compact(text(index)).unwrap_err();
        assert_eq!(error, JwsError::Algorithm(algorithm));
        let key = signed[index]["key"].as_str().unwrap();
        assert!(VerifyingKey::from_jwk(key.as_bytes()).is_err());
    }
}

#[test]
fn no_bit_can_be_flipped() {
    for part in 0..3 {
        for bit in 0..8 * parts()[part].len() {
            let mut parts = parts();
            parts[part][bit / 8] ^= 1 << (bit % 8);
            let text = parts.map(encode).join(".");
            match Jws::parse_compact(text.as_bytes()) {
                Ok(message) => assert_eq!(message.verify(&key()), Err(JwsError::Forged)),
                Err(error) => assert_eq!(part, 0, "{error}"),
            }
        }
    }
}

#[test]
fn other_messages_are_refused() {
    let no_signature = TEXT.rsplit_once('.').unwrap().0;
    let long = format!("{TEXT}{}", "A".repeat(70_000));
    for (text, want) in [
        ("", "three parts"),
        (no_signature, "three parts"),
        (&format!("{TEXT}.x"), "three parts"),
        (&format!("{TEXT}="), "not base64url"),
        (&format!("{TEXT}AAAA"), "another length than 64"),
        (&format!("{no_signature}."), "another length than 64"),
        (&long, "more than 65536 bytes"),
        (&with_header("{}"), "how it is signed"),
        (&with_header(r#"{"alg":["ES256"]}"#), "how it is signed"),
        (&with_header("x"), "no JSON object"),
        (&with_header(r#"{"alg":"none","alg":"ES256"}"#), "a member twice"),
        (&with_header(r#"{"alg":"none"}"#), "signed with none,"),
        (&with_header(r#"{"alg":"HS256"}"#), "signed with HS256,"),
        (&with_header(r#"{"alg":"es256"}"#), "an unknown algorithm,"),
        (&with_header(r#"{"alg":"ES256","crit":["x"]}"#), "critical extensions"),
        (&with_header(r#"{"alg":"ES256","b64":false}"#), "b64 other than true"),
        (&with_header(r#"{"alg":"ES256","b64":"true"}"#), "b64 other than true"),
        (&with_header(r#"{"alg":"ES256","b64":true,"crit":["b64"]}"#), "critical extensions"),
        (&with_header(r#"{"alg":"ES256","kid":1}"#), "kid that is no text"),
    ] {
        let error = Jws::parse_compact(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(want), "{want}: {error}");
    }
    // A header that carries its own key is no reason to use it.
    let own = with_header(&format!(r#"{{"alg":"ES256","jwk":{}}}"#, jwk()));
    let message = Jws::parse_compact(own.as_bytes()).unwrap();
    assert_eq!(message.verify(&key()), Err(JwsError::Forged));
}

#[test]
fn other_keys_are_refused() {
    let with = |name: &str, value: Value| {
        let mut jwk = jwk();
        jwk[name] = value;
        jwk.to_string()
    };
    for jwk in [with("use", json!("sig")), with("alg", json!("ES256")), with("kid", json!(7))] {
        assert!(VerifyingKey::from_jwk(jwk.as_bytes()).is_ok(), "{jwk}");
    }
    for (jwk, want) in [
        (String::new(), "is not JSON"),
        (r#"{"kty":"EC","kty":"EC"}"#.to_owned(), "JSON member twice"),
        (with("use", json!("enc")), "something else"),
        (with("alg", json!("ES384")), "something else"),
        (with("alg", json!(null)), "something else"),
        (with("d", json!("AAAA")), "a private key"),
        (with("kty", json!("RSA")), "not an EC key on P-256"),
        (with("crv", json!("P-384")), "not an EC key on P-256"),
        (with("x", json!("AAAA")), "32 bytes"),
        (with("x", json!(encode([0; 32]))), "no point"),
        (" ".repeat(70_000), "more than 65536 bytes"),
    ] {
        let error = VerifyingKey::from_jwk(jwk.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(want), "{want}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = [encode(r#"{"alg":"ES256"}"#), encode(&bytes), encode([0; 64])].join(".");
        let verified = Jws::parse_compact(text.as_bytes()).unwrap().verify(&key());
        prop_assert_eq!(verified, Err(JwsError::Forged));
    }
}
