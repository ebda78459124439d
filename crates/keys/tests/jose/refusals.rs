//! Messages that say two things, or ask for what is not supported, are refused, each with its own
//! words.

use keys::Jwe;
use keys::jwe::{MAX_PARTY_BYTES, MAX_RECIPIENTS};
use serde_json::{Map, Value, json};

use crate::support::{decode, encode};
use crate::vector::{compact, general, parse, plenty, set, vector, with_header};

#[test]
fn what_contradicts_itself_or_is_not_supported_is_refused() {
    type Change = fn(&mut Map<String, Value>);
    let cases: &[(&str, Change)] = &[
        ("member in two of its headers", |m| {
            set(m, "unprotected", json!({"enc": "A128GCM"}));
        }),
        ("member in two of its headers", |m| {
            set(m, "header", json!({"alg": "ECDH-ES+A128KW"}));
        }),
        ("member in two of its headers", |m| {
            set(m, "header", json!({"kid": "a"}));
        }),
        ("member in two of its headers", |m| {
            set(m, "header", json!({"x": "a"}));
            set(m, "unprotected", json!({"x": "a"}));
        }),
        ("critical extensions", |m| {
            with_header(m, |h| set(h, "crit", json!(["exp"])));
        }),
        ("critical extensions", |m| {
            set(m, "unprotected", json!({"crit": []}));
        }),
        ("compressed", |m| {
            with_header(m, |h| set(h, "zip", json!("DEF")));
        }),
        ("wrapped with dir, which", |m| {
            with_header(m, |h| set(h, "alg", json!("dir")));
        }),
        ("wrapped with RSA1_5, which", |m| {
            with_header(m, |h| set(h, "alg", json!("RSA1_5")));
        }),
        ("wrapped with ECDH-ES, which", |m| {
            with_header(m, |h| set(h, "alg", json!("ECDH-ES")));
        }),
        ("wrapped with an unknown algorithm, which", |m| {
            with_header(m, |h| set(h, "alg", json!("hunter2")));
        }),
        ("wrapped with a key agreement on an unknown curve, which", |m| {
            with_header(m, |h| h["epk"]["crv"] = json!("secp256k1"));
        }),
        ("encrypted with C20P, which", |m| {
            with_header(m, |h| set(h, "enc", json!("C20P")));
        }),
        ("encrypted with an unknown algorithm, which", |m| {
            with_header(m, |h| set(h, "enc", json!("a128gcm")));
        }),
        ("how its content is encrypted (enc)", |m| {
            with_header(m, |h| drop(h.remove("enc")));
        }),
        ("how its key is wrapped (alg)", |m| {
            with_header(m, |h| drop(h.remove("alg")));
        }),
        ("header member of a wrong type", |m| {
            with_header(m, |h| set(h, "alg", json!(["ECDH-ES+A128KW"])));
        }),
        ("without the sender's key (epk)", |m| {
            with_header(m, |h| drop(h.remove("epk")));
        }),
        ("no EC key on its curve", |m| {
            with_header(m, |h| h["epk"]["x"] = json!("AAAA"));
        }),
        ("no EC key on its curve", |m| {
            with_header(m, |h| h["epk"]["kty"] = json!("OKP"));
        }),
        ("apu or apv", |m| {
            with_header(m, |h| set(h, "apu", json!("=")));
        }),
        ("protected header that is not base64url", |m| {
            set(m, "protected", json!("e30="));
        }),
        ("protected header that is no text", |m| {
            set(m, "protected", json!({}));
        }),
        ("protected header that is no JSON object", |m| {
            set(m, "protected", json!(encode("[]")));
        }),
        ("has a member twice", |m| {
            set(m, "protected", json!(encode(r#"{"a":1,"a":1}"#)));
        }),
        ("protected header that is too long", |m| {
            set(m, "protected", json!("a".repeat(20_000)));
        }),
        ("header that is no JSON object", |m| {
            set(m, "header", json!(null));
        }),
        ("header that is no JSON object", |m| {
            set(m, "unprotected", json!([]));
        }),
        ("both a header and recipients", |m| {
            *m = general(m);
            set(m, "header", json!({}));
        }),
        ("not the first recipient's", |m| {
            *m = general(m);
            set(m, "encrypted_key", json!("AAAA"));
        }),
        ("recipients that are no JSON array", |m| {
            set(m, "recipients", json!({}));
        }),
        ("no recipients", |m| set(m, "recipients", json!([]))),
        ("recipient that is no JSON object", |m| {
            set(m, "recipients", json!([1]));
        }),
        ("without encrypted_key", |m| {
            set(m, "recipients", json!([{}]));
        }),
        ("more than 32 recipients", |m| {
            let one = json!({"encrypted_key": m["encrypted_key"]});
            set(m, "recipients", vec![one; MAX_RECIPIENTS + 1].into());
        }),
        ("different content encryptions", |m| {
            let key = m["encrypted_key"].clone();
            with_header(m, |h| drop(h.remove("enc")));
            let one = |enc: &str| json!({"encrypted_key": key, "header": {"enc": enc}});
            set(m, "recipients", json!([one("A128GCM"), one("A256GCM")]));
        }),
        ("without encrypted_key", |m| {
            m.remove("encrypted_key");
        }),
        ("longer than any key", |m| {
            set(m, "encrypted_key", json!("A".repeat(1400)));
        }),
        ("has an empty encrypted_key", |m| {
            set(m, "encrypted_key", json!(""));
        }),
        ("apu or apv of more than 256 bytes", |m| {
            with_header(m, |h| set(h, "apv", json!(encode([0; MAX_PARTY_BYTES + 1]))));
        }),
        ("has no iv", |m| drop(m.remove("iv"))),
        ("has no tag", |m| drop(m.remove("tag"))),
        ("has no ciphertext", |m| drop(m.remove("ciphertext"))),
        ("should be a text", |m| set(m, "ciphertext", json!(1))),
        ("iv of a wrong length", |m| set(m, "iv", json!("AAAA"))),
        ("tag of a wrong length", |m| set(m, "tag", json!(""))),
        ("tag of a wrong length", |m| {
            let tag = decode(m["tag"].as_str().unwrap());
            set(m, "tag", json!(encode(&tag[..15])));
        }),
        ("not base64url without padding", |m| {
            set(m, "tag", json!("WuGzxmcreYjpHGJoa17EBh"));
        }),
        ("not base64url without padding", |m| set(m, "aad", json!("+"))),
    ];
    for (want, change) in cases {
        let (mut message, _) = vector();
        change(&mut message);
        let error = parse(&message).unwrap_err();
        assert!(error.contains(want), "{want}: {error}");
        assert!(!error.contains("hunter2"));
    }
    let (mut message, _) = vector();
    with_header(&mut message, |h| {
        set(h, "apu", json!(encode([0; MAX_PARTY_BYTES])));
    });
    parse(&message).unwrap();
}

#[test]
fn texts_that_are_no_messages_are_refused() {
    let (message, key) = vector();
    let compact = compact(&message);
    let json = Value::Object(message).to_string();
    let twice = json.replacen('{', r#"{"tag":"","#, 1);
    for (text, want) in [
        ("", "neither a JSON object nor five parts"),
        ("....", "no JSON object"),
        ("{}", "without encrypted_key"),
        ("{", "is not JSON"),
        (&twice, "JSON member twice"),
        (&format!("{json}{json}"), "is not JSON"),
        (&format!("{compact}."), "neither a JSON object nor five parts"),
        (compact.rsplit_once('.').unwrap().0, "neither a JSON object nor five parts"),
        (&format!("{compact}\n"), "not base64url"),
        (&format!("{compact}=="), "not base64url"),
    ] {
        let error = Jwe::parse(text.as_bytes()).unwrap_err();
        assert!(error.contains(want), "{want}: {error}");
    }
    assert!(Jwe::parse(b"\xff.\xff.\xff.\xff.\xff").is_err());
    assert!(Jwe::parse(compact.as_bytes()).unwrap().open(&[key], &plenty()).is_ok());
}
