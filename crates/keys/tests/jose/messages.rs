//! Messages as RFC 7520 has them and as jwcrypto writes them are opened; what was changed, or says
//! two things, is not.

use aws_lc_rs::digest::{SHA256, digest};
use keys::{Effort, Jwe, PrivateKey, Refused};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::{Peer, decode, encode};
use crate::vector::{RFC, compact, general, parse, plenty, set, vector, with_header};

fn key(jwk: &Value) -> PrivateKey {
    PrivateKey::read(jwk.as_str().unwrap().as_bytes(), None).unwrap()
}

/// One that belongs to nobody here: RFC 7517 appendix A.2.
fn stranger() -> PrivateKey {
    let jwk = br#"{"kty":"EC","crv":"P-256","alg":"ECDH-ES+A256KW",
        "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
        "d":"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE"}"#;
    PrivateKey::read(jwk, None).unwrap()
}

#[test]
fn what_the_rfc_encrypted_is_opened_in_every_form() {
    let vector: Value = serde_json::from_str(RFC).unwrap();
    let (message, key) = crate::vector::vector();
    let mut without = general(&message);
    without.remove("encrypted_key");
    let texts = [
        compact(&message),
        Value::Object(message.clone()).to_string(),
        Value::Object(general(&message)).to_string(),
        Value::Object(without).to_string(),
        format!(" {} \n", Value::Object(message)),
    ];
    let keys = [stranger(), key];
    for text in texts {
        let opened = Jwe::parse(text.as_bytes()).unwrap().open(&keys, &plenty()).unwrap();
        let hash: String = digest(&SHA256, &opened.plain)
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(vector["plain_bytes"], opened.plain.len());
        assert_eq!(vector["plain_sha256"], hash, "{text}");
        assert_eq!((opened.algorithm, opened.key), ("ECDH-ES+A128KW", 1));
        assert!(format!("{opened:?}").len() < 80);
        let shown = format!("{:?}", Jwe::parse(text.as_bytes()).unwrap());
        assert!(shown.contains("on P-384") && shown.len() < 120, "{shown}");
    }
}

/// Every key algorithm on every kind of key, with every content encryption, compact and as JSON,
/// for one and for several.
#[test]
fn what_jwcrypto_encrypts_is_opened() {
    let Some(peer) = Peer::ask() else { return };
    let plain = peer.plain();
    for case in peer.messages() {
        let text = case["text"].as_str().unwrap();
        let message = Jwe::parse(text.as_bytes()).unwrap();
        let algorithms = case["algorithms"].as_array().unwrap();
        for (jwk, algorithm) in case["keys"].as_array().unwrap().iter().zip(algorithms) {
            let keys = [stranger(), key(jwk), stranger()];
            let opened = message.open(&keys, &plenty()).unwrap();
            assert_eq!(opened.plain.as_slice(), plain, "{text}");
            assert_eq!(opened.key, 1);
            assert_eq!(opened.algorithm, algorithm.as_str().unwrap());
        }
    }
    assert_eq!(peer.messages().len(), 138);
}

/// Every bit of what was encrypted, on both kinds of content encryption and both ways of wrapping.
#[test]
fn no_bit_can_be_flipped() {
    let (message, key) = vector();
    let mut tried = flip_all(&message, &[key], 1);
    if let Some(peer) = Peer::ask() {
        for case in peer.messages() {
            let message: Value = match serde_json::from_str(case["text"].as_str().unwrap()) {
                Ok(message) => message,
                Err(_) => continue,
            };
            let Some(message) = message.as_object() else {
                continue;
            };
            if message.contains_key("recipients") {
                continue;
            }
            tried += flip_all(message, &[self::key(&case["keys"][0])], 97);
        }
        assert!(tried > 5000, "{tried}");
    }
    assert!(tried > 2500, "{tried}");
}

fn flip_all(message: &Map<String, Value>, keys: &[PrivateKey], step: usize) -> usize {
    assert!(parse(message).unwrap().open(keys, &plenty()).is_ok());
    let mut tried = 0;
    for (name, value) in message {
        let Some(text) = value.as_str() else { continue };
        let bytes = decode(text);
        for bit in (0..8 * bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut message = message.clone();
            message.insert(name.clone(), encode(flipped).into());
            // What the headers say may become anything; the rest must be told from nothing but a
            // missing key.
            match parse(&message) {
                Ok(message) => {
                    let error = message.open(keys, &plenty()).unwrap_err();
                    assert!(matches!(error, Refused::NoKeyOpens(_)), "{name} {bit}");
                }
                Err(error) => assert_eq!(name, "protected", "{error}"),
            }
            tried += 1;
        }
    }
    tried
}

/// `aad` that was not there when it was encrypted, even empty, is another message.
#[test]
fn what_is_authenticated_beside_the_content_counts() {
    let (mut message, key) = vector();
    set(&mut message, "aad", json!(""));
    let error = parse(&message).unwrap().open(&[key], &plenty()).unwrap_err();
    assert!(matches!(error, Refused::NoKeyOpens(_)));
}

/// The sender's point is (0, 1), which is on none of the curves: whoever computes with it gives the
/// private key away.
#[test]
fn a_point_that_is_not_on_the_curve_opens_nothing() {
    let (mut message, key) = vector();
    let mut one = vec![0; 47];
    one.push(1);
    with_header(&mut message, |header| {
        header["epk"]["x"] = encode([0; 48]).into();
        header["epk"]["y"] = encode(one).into();
    });
    let error = parse(&message).unwrap().open(&[key], &plenty()).unwrap_err();
    assert!(matches!(error, Refused::NoKeyOpens(_)));
}

/// A message for two, one of whom uses what is not supported, is opened by the other, and the error
/// names both.
#[test]
fn other_recipients_do_not_stand_in_the_way() {
    let (mut message, key) = vector();
    let mut alone = Map::new();
    with_header(&mut message, |header| {
        for name in ["alg", "epk"] {
            alone.insert(name.to_owned(), header.remove(name).unwrap());
        }
    });
    let own = json!({"header": alone, "encrypted_key": message["encrypted_key"]});
    let other = json!({"header": {"alg": "A256KW"}, "encrypted_key": "AAAA"});
    message.remove("encrypted_key");
    set(&mut message, "recipients", json!([other, own, own]));
    let message = parse(&message).unwrap();
    let p256 = stranger();
    let error = message.open(&[p256, key], &plenty()).unwrap_err();
    let Refused::NoKeyOpens(wanted) = error else { panic!("{error}") };
    assert_eq!(wanted, "ECDH-ES+A128KW on P-384, A256KW (not supported)");
}

/// The first recipient is a stranger's; the last could have been made for the key and was not.
#[test]
fn work_is_asked_for_before_it_is_done() {
    let (mut message, key) = vector();
    let right = message["encrypted_key"].clone();
    let wrong = |bytes: usize| json!(encode(vec![7; bytes]));
    let mut recipients = Vec::new();
    for wrapped in [wrong(24), wrong(72), right, wrong(24)] {
        recipients.push(json!({"encrypted_key": wrapped}));
    }
    message.remove("encrypted_key");
    set(&mut message, "recipients", recipients.into());
    let message = parse(&message).unwrap();
    assert_eq!(message.recipients(), 4);
    let keys = [stranger(), key];
    for allowed in 0..5 {
        let effort = Effort::new(allowed);
        let opened = message.open(&keys, &effort);
        let left = (0..9).filter(|_| effort.spend()).count();
        if allowed < 3 {
            assert_eq!((opened.unwrap_err(), left), (Refused::Stopped, 0));
        } else {
            assert_eq!((opened.unwrap().key, left), (1, allowed as usize - 3));
        }
    }
}

/// What has a length that wrapping does not make costs no operation, and does not stand in the way
/// of the others.
#[test]
fn what_cannot_have_been_wrapped_costs_nothing() {
    let operations = |message: &Map<String, Value>, keys: &[PrivateKey]| {
        let effort = plenty();
        let opened = parse(message).unwrap().open(keys, &effort);
        let left = (0..1000).filter(|_| effort.spend()).count();
        (1000 - left, opened.is_ok())
    };
    let (right, key) = vector();
    let keys = [key];
    for (bytes, want) in [
        (1, 0),
        (8, 0),
        (16, 0),
        (23, 0),
        (24, 1),
        (25, 0),
        (31, 0),
        (32, 1),
        (72, 1),
        (80, 0),
        (256, 0),
    ] {
        let mut message = right.clone();
        set(&mut message, "encrypted_key", json!(encode(vec![7; bytes])));
        assert_eq!(operations(&message, &keys), (want, false), "{bytes} bytes");
        let both = ["encrypted_key"].map(|name| json!({name: message[name]}));
        let both = [&both[..], &[json!({"encrypted_key": right["encrypted_key"]})]].concat();
        message.remove("encrypted_key");
        set(&mut message, "recipients", both.into());
        assert_eq!(operations(&message, &keys), (want + 1, true), "{bytes} bytes");
    }
    let Some(peer) = Peer::ask() else { return };
    let mut tried = 0;
    for case in peer.messages() {
        let algorithms = case["algorithms"].as_array().unwrap();
        let Ok(Value::Object(mut message)) = serde_json::from_str(case["text"].as_str().unwrap())
        else {
            continue;
        };
        if algorithms != &[json!("RSA-OAEP")] || message.contains_key("recipients") {
            continue;
        }
        let keys = [self::key(&case["keys"][0])];
        assert_eq!(operations(&message, &keys), (1, true));
        let wrapped = decode(message["encrypted_key"].as_str().unwrap());
        for other in [&wrapped[1..], &[&[0], &wrapped[..]].concat(), &wrapped[..32]] {
            set(&mut message, "encrypted_key", json!(encode(other)));
            assert_eq!(operations(&message, &keys), (0, false));
        }
        tried += 1;
    }
    assert!(tried > 0);
}

/// A key that says what it is for is not used for anything else.
#[test]
fn a_key_for_another_algorithm_opens_nothing() {
    let vector: Value = serde_json::from_str(RFC).unwrap();
    let (message, _) = crate::vector::vector();
    let message = parse(&message).unwrap();
    for (algorithm, opens) in [("ECDH-ES+A128KW", true), ("ECDH-ES+A256KW", false)] {
        let mut jwk = vector["key"].clone();
        jwk["alg"] = algorithm.into();
        let key = PrivateKey::read(jwk.to_string().as_bytes(), None).unwrap();
        assert_eq!(message.open(&[key], &plenty()).is_ok(), opens, "{algorithm}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever the bytes, and whatever is put in a member's place: a message or an error of few
    /// words, and nothing opens.
    #[test]
    fn foreign_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        name in 0_usize..5,
        text in ".{0,60}",
    ) {
        let (mut message, key) = vector();
        let name = message.keys().nth(name).unwrap().clone();
        set(&mut message, &name, json!(text));
        if let Ok(message) = parse(&message) {
            prop_assert!(message.open(std::slice::from_ref(&key), &plenty()).is_err());
        }
        set(&mut message, &name, json!(encode(&bytes)));
        match parse(&message) {
            Ok(message) => prop_assert!(message.open(&[key], &plenty()).is_err()),
            Err(error) => prop_assert!(error.to_string().len() < 300),
        }
    }
}
