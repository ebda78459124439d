use super::*;
use crate::LayerKey;
use crate::vector::{PRIVATE, PUBLIC};

fn private(text: &str) -> Result<LayerKey, InvalidOptions> {
    LayerKey::parse(text.as_bytes(), &PublicOptions::parse(PUBLIC.as_bytes()).unwrap())
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

#[test]
fn the_public_options_choose_nothing() {
    let hmac = "/FYSeZgM86S8NnF228pp1RN/KEfTd6clJwKRdjCsFbQ=";
    for (from, to) in
        [(r#","cipheroptions":{}"#, ""), ("{}", "null"), ("{}", r#"{},"later":{"nonce":"AAAA"}"#)]
    {
        PublicOptions::parse(replaced(PUBLIC, from, to).as_bytes()).unwrap();
    }
    for (from, to, expected) in [
        (CIPHER, "AES_256_CTR", InvalidOptions::Cipher("\"AES_256_CTR\"".to_owned())),
        (CIPHER, "", InvalidOptions::Cipher("\"\"".to_owned())),
        ("cipher\":", "none\":", InvalidJson::Missing("cipher").into()),
        ("\"hmac\"", "\"mac\"", InvalidJson::Missing("hmac").into()),
        (&format!("\"{hmac}\""), "null", InvalidJson::Missing("hmac").into()),
        (hmac, "", length("hmac", 32, 0)),
        (hmac, "AAAA", length("hmac", 32, 3)),
        (hmac, &hmac[..43], InvalidJson::Base64("hmac").into()),
        ("\"hmac\"", "\"Hmac\"", InvalidJson::Case("hmac").into()),
        ("{}", r#"{"nonce":"8PHy8/T19vf4+fr7/P3+/w=="}"#, InvalidOptions::PublicCipherOptions),
        ("{}", r#"{"nonce":null}"#, InvalidOptions::PublicCipherOptions),
        ("{}", r#"{"Nonce":""}"#, InvalidOptions::PublicCipherOptions),
        ("{}", r#"{"x":1}"#, InvalidOptions::PublicCipherOptions),
        ("{}", "[]", InvalidJson::Members("cipheroptions").into()),
        (
            "{}",
            r#"{},"CipherOptions":{"nonce":"AAAA"}"#,
            InvalidJson::Twice("cipheroptions").into(),
        ),
    ] {
        let text = replaced(PUBLIC, from, to);
        assert_eq!(PublicOptions::parse(text.as_bytes()), Err(expected), "{text}");
    }
    assert!(PublicOptions::parse(b"").is_err());
}

#[test]
fn the_private_options_have_everything_that_it_takes() {
    let (key, nonce) = ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "8PHy8/T19vf4+fr7/P3+/w==");
    let read = private(PRIVATE).unwrap();
    assert_eq!(read.key[..], (0..32).collect::<Vec<u8>>());
    assert_eq!(read.nonce[..], (240..=255).collect::<Vec<u8>>());
    for (from, to) in
        [("\"digest\"", "\"hash\""), ("sha256:8f", "sha1:8f"), ("sha256:8f", "sha256:00")]
    {
        let read = private(&replaced(PRIVATE, from, to));
        assert!(read.is_ok(), "the digest of a tool's source, {to}");
    }
    for (from, to, expected) in [
        ("symkey", "key", InvalidJson::Missing("symkey").into()),
        (key, "AAAA", length("symkey", 32, 3)),
        (nonce, "8PHy8/T19vf4+fr7", length("nonce", 16, 12)),
        ("nonce", "iv", InvalidJson::Missing("nonce").into()),
        ("cipheroptions", "options", InvalidJson::Missing("cipheroptions").into()),
        ("symkey\":", "symkey\":\"\",\"symkey\":", InvalidJson::Twice("symkey").into()),
        ("\"nonce\":", "\"nonce\":\"\",\"nonce\":", InvalidJson::Twice("nonce").into()),
    ] {
        let text = replaced(PRIVATE, from, to);
        let error = private(&text).err();
        assert_eq!(error, Some(expected), "{text}");
    }
}

/// Keys have been found in logs because a parser quotes what it does not like.
#[test]
fn errors_repeat_nothing_that_was_wrapped() {
    for text in [
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned(),
        replaced(PRIVATE, "\"AAECAwQF", "[\"AAECAwQF").replace("h8=\"", "h8=\"]"),
        replaced(PRIVATE, "h8=", "h8"),
        replaced(PRIVATE, "\"symkey\":", "\"symkey\":\"AAEC\","),
        replaced(PRIVATE, "\"digest\":", "\"AAEC\":").replace("8PHy", "h8PHy"),
    ] {
        let error = private(&text).err().unwrap();
        let all = format!("{error} {error:?}");
        assert!(!all.contains("AAEC") && !all.contains("h8"), "{all}");
    }
}

fn length(member: &'static str, expected: usize, found: usize) -> InvalidOptions {
    let length = InvalidJson::Length { member, expected, found };
    length.into()
}
