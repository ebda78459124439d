use std::slice;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use serde_json::json;

use super::*;
use crate::InvalidJson;
use crate::packet::Unopened;
use crate::vector::{CTR, GCM, KID, PUBLIC, key_encryption_key};

const PACKETS_ANNOTATION: &str = "org.opencontainers.image.enc.keys.provider.attestation-agent";

/// What is no JWE under any circumstances.
const NO_JWE: &str = "no JWE";

fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut annotations: BTreeMap<_, _> = pairs
        .iter()
        .map(|(scheme, list)| (format!("{KEYS}{scheme}"), (*list).to_owned()))
        .collect();
    annotations.insert(PUBLIC_OPTIONS.to_owned(), STANDARD.encode(PUBLIC));
    annotations
}

fn list(entries: &[&str]) -> String {
    let entries: Vec<_> = entries.iter().map(|entry| STANDARD.encode(entry)).collect();
    entries.join(",")
}

/// More than any test here takes.
fn plenty() -> Effort {
    Effort::new(1000)
}

fn keks(keys: &[(&str, Vec<u8>)]) -> BTreeMap<String, Zeroizing<Vec<u8>>> {
    let keys = keys.iter();
    keys.map(|(kid, key)| ((*kid).to_owned(), Zeroizing::new(key.clone()))).collect()
}

#[test]
fn any_packet_that_opens_is_enough() {
    let other = GCM.replace(KID, "kbs:///default/image-kek/2");
    let cloud = GCM.replacen('{', r#"{"provider":"aliyun","#, 1);
    let right = keks(&[(KID, key_encryption_key())]);
    for packets in [list(&[GCM]), list(&[&other, &cloud, "broken", CTR, GCM])] {
        let encryption = Encryption::parse(&annotations(&[
            ("pkcs7", "AAAA"),
            ("jwe", &list(&[NO_JWE])),
            (PACKETS, &packets),
        ]))
        .unwrap();
        let unlocked = encryption.unwrap(&[], &right, &plenty()).unwrap();
        assert_eq!(unlocked.how, "key provider attestation-agent, kbs:///default/image-kek/1");
        assert_eq!(unlocked.by, None);
        assert!(!encryption.uses_keys());
    }
    let encryption = Encryption::parse(&annotations(&[(PACKETS, &list(&[&other, GCM]))]));
    let encryption = encryption.unwrap();
    let kids: Vec<_> = encryption.packets().map(Packet::kid).collect();
    assert_eq!(kids, ["kbs:///default/image-kek/2", KID]);
}

#[test]
fn every_way_has_its_reason() {
    let wrong =
        keks(&[(KID, vec![7; 32]), ("kbs:///short/a/b", STANDARD.encode([7; 32]).into_bytes())]);
    let short = GCM.replace(KID, "kbs:///short/a/b");
    let missing = GCM.replace(KID, "kbs:///missing/a/b");
    let second = GCM.replacen('{', r#"{"provider":"\u001baliyun","#, 1);
    for (scheme, entries, why, text) in [
        (
            PACKETS,
            list(&[GCM]),
            Refused::Unopened(Unopened::Key),
            "key provider attestation-agent 1, kbs:///default/image-kek/1: the key of that name \
            does not open it",
        ),
        (
            PACKETS,
            list(&[CTR]),
            Refused::Packet(InvalidPacket::NotAuthenticated),
            "attestation-agent 1: it is wrapped with \"A256CTR\", which is refused",
        ),
        (
            PACKETS,
            list(&[&short]),
            Refused::Unopened(Unopened::KeyBytes),
            "kbs:///short/a/b: what has that name is no key of 32 bytes; it has to be the bytes \
            themselves",
        ),
        (PACKETS, list(&[&missing]), Refused::NotFetched, "could not be had"),
        (
            PACKETS,
            list(&[&second]),
            Refused::Packet(InvalidPacket::Provider(r#""\u{1b}aliyun""#.to_owned())),
            r#"attestation-agent 1: its provider is "\u{1b}aliyun""#,
        ),
        (
            "pkcs7",
            list(&["x"]),
            Refused::Unread,
            "PKCS#7: this is not supported; encrypt the image for a JWE key",
        ),
        ("pgp", list(&["x"]), Refused::Unread, "OpenPGP: "),
        ("pkcs11", list(&["x"]), Refused::Unread, "PKCS#11: "),
        ("provider.vault", list(&["x"]), Refused::Unread, "key provider \"vault\": "),
        (
            "new\u{1b}",
            "not even base64".to_owned(),
            Refused::Unread,
            r#"the unknown scheme "new\u{1b}": "#,
        ),
    ] {
        let encryption = Encryption::parse(&annotations(&[(scheme, &entries)])).unwrap();
        let error = encryption.unwrap(&[], &wrong, &plenty()).unwrap_err();
        let whys: Vec<_> = error.refused.iter().map(|(_, why)| why.clone()).collect();
        assert_eq!(whys, [why]);
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains("44"), "{error}");
    }
}

/// Somebody with the key wrapped something that is no use: that is told apart from a wrong key, and
/// nothing of it is shown.
#[test]
fn what_was_wrapped_must_be_options() {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key_encryption_key()).unwrap());
    for (inside, expected) in [
        (r#"{"symkey":"c2VjcmV0"}"#, InvalidJson::Missing("cipheroptions")),
        ("c2VjcmV0", InvalidJson::Object),
    ] {
        let mut wrapped = inside.as_bytes().to_vec();
        let nonce = Nonce::assume_unique_for_key([1; 12]);
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut wrapped).unwrap();
        let packet = json!({
            "kid": KID,
            "wrapped_data": STANDARD.encode(&wrapped),
            "iv": "AQEBAQEBAQEBAQEB",
            "wrap_type": "A256GCM",
        });
        let packet = packet.to_string();
        let encryption = Encryption::parse(&annotations(&[(PACKETS, &list(&[&packet]))]));
        let error = encryption
            .unwrap()
            .unwrap(&[], &keks(&[(KID, key_encryption_key())]), &plenty())
            .unwrap_err();
        assert_eq!(error.refused[0].1, Refused::Options(expected.into()));
        assert!(!format!("{error} {error:?}").contains("c2Vj"), "{error:?}");
    }
}

#[test]
fn many_ways_make_no_long_message() {
    let packets = vec![GCM; MAX_ENTRIES];
    let encryption = Encryption::parse(&annotations(&[(PACKETS, &list(&packets))])).unwrap();
    let error = encryption.unwrap(&[], &keks(&[]), &plenty()).unwrap_err();
    assert_eq!(error.refused.len(), MAX_ENTRIES);
    let text = error.to_string();
    assert!(text.ends_with("; and 28 more"), "{text}");
    assert!(text.len() < 1000, "{text}");
}

#[test]
fn annotations_that_describe_no_encryption_are_refused() {
    let without = |name: &str| {
        let mut annotations = annotations(&[(PACKETS, &list(&[GCM]))]);
        annotations.remove(name).unwrap();
        annotations
    };
    let replaced = |name: &str, value: &str| {
        let mut annotations = annotations(&[(PACKETS, &list(&[GCM]))]);
        annotations.insert(name.to_owned(), value.to_owned()).unwrap();
        annotations
    };
    let shown = format!("{PACKETS_ANNOTATION:?}");
    let base64 = |entry| InvalidEncryption::Base64 { annotation: shown.clone(), entry };
    let options = |error: InvalidJson| InvalidEncryption::Options(error.into());
    let long = "A".repeat(MAX_ANNOTATION_BYTES + 4);
    for (annotations, expected) in [
        (without(PUBLIC_OPTIONS), InvalidEncryption::NoPublicOptions),
        (without(PACKETS_ANNOTATION), InvalidEncryption::NoKeys),
        (replaced(PACKETS_ANNOTATION, ""), InvalidEncryption::NoKeys),
        (replaced(PACKETS_ANNOTATION, "AAAA,A"), base64(2)),
        (replaced(PACKETS_ANNOTATION, "AAA"), base64(1)),
        (replaced(PACKETS_ANNOTATION, "AAAA, AAAA"), base64(2)),
        (replaced(PACKETS_ANNOTATION, "AA-_"), base64(1)),
        (
            replaced(PACKETS_ANNOTATION, &long),
            InvalidEncryption::TooLong { annotation: shown.clone(), found: long.len() },
        ),
        (
            replaced(PACKETS_ANNOTATION, &["AAAA"; MAX_ENTRIES + 1].join(",")),
            InvalidEncryption::TooMany {
                what: format!("entries of the annotation {shown}"),
                found: MAX_ENTRIES + 1,
            },
        ),
        (replaced(PUBLIC_OPTIONS, PUBLIC), options(InvalidJson::Base64("pubopts"))),
        (replaced(PUBLIC_OPTIONS, ""), options(InvalidJson::Object)),
        (
            replaced(PUBLIC_OPTIONS, &long),
            InvalidEncryption::TooLong {
                annotation: format!("{PUBLIC_OPTIONS:?}"),
                found: long.len(),
            },
        ),
    ] {
        assert_eq!(Encryption::parse(&annotations).err(), Some(expected));
    }
    let schemes: Vec<_> = (0..=MAX_ENTRIES).map(|at| format!("x{at}")).collect();
    let schemes: Vec<_> = schemes.iter().map(|name| (&name[..], "AAAA")).collect();
    Encryption::parse(&annotations(&schemes[1..])).unwrap();
    let error = Encryption::parse(&annotations(&schemes)).unwrap_err();
    assert!(matches!(error, InvalidEncryption::TooMany { .. }), "{error}");
    // Others may be there.
    let mut more = annotations(&[(PACKETS, &list(&[GCM])), ("jwe", "")]);
    more.insert("org.opencontainers.image.enc.later".to_owned(), "?".to_owned());
    more.insert("org.opencontainers.image.title".to_owned(), "?".to_owned());
    let encryption = Encryption::parse(&more).unwrap();
    assert_eq!((encryption.packets().count(), encryption.uses_keys()), (1, false));
}

/// RFC 7517 appendix A.2.
fn own_jwk() -> serde_json::Value {
    json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
        "d": "870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE",
    })
}

/// A JWE that asks for an operation of each recipient and each key, and that nothing opens.
fn jwe(recipients: usize) -> String {
    let header = json!({"alg": "ECDH-ES+A256KW", "epk": own_jwk()});
    let recipient = json!({"header": header, "encrypted_key": "A".repeat(32)});
    let members = json!({
        "unprotected": {"enc": "A256GCM"},
        "recipients": vec![recipient; recipients],
        "iv": "A".repeat(16),
        "ciphertext": "AAAA",
        "tag": "A".repeat(22),
    });
    members.to_string()
}

#[test]
fn jwes_have_limits_together() {
    let (one, many) = (jwe(1), jwe(32));
    let long = |bytes: usize| format!("{one}{}", " ".repeat(bytes - one.len()));
    for (jwes, expected) in [
        (list(&[&many, &many]), None),
        (list(&[&many, &one, &many]), Some(InvalidEncryption::Recipients(MAX_RECIPIENTS + 1))),
        (list(&[&one, &long(MAX_JWE_BYTES)]), None),
        (
            list(&[&one, &long(MAX_JWE_BYTES + 1)]),
            Some(InvalidEncryption::JweBytes { entry: 2, found: MAX_JWE_BYTES + 1 }),
        ),
    ] {
        let error = Encryption::parse(&annotations(&[("jwe", &jwes)])).err();
        assert_eq!(error, expected);
    }
}

#[test]
fn no_more_keys_are_tried_than_is_allowed() {
    let key = || PrivateKey::read(own_jwk().to_string().as_bytes(), None).unwrap();
    let keys = [key(), key()];
    let jwes = list(&[&jwe(2), &jwe(1)]);
    let locked = Encryption::parse(&annotations(&[("jwe", &jwes)])).unwrap();
    let packet = annotations(&[("jwe", &jwes), (PACKETS, &list(&[GCM]))]);
    let packet = Encryption::parse(&packet).unwrap();
    let unopened = || Refused::NoKeyOpens("ECDH-ES+A256KW on P-256".to_owned());
    for (operations, left, expected) in [
        (7, 1, [unopened(), unopened()]),
        (6, 0, [unopened(), unopened()]),
        (5, 0, [unopened(), Refused::Stopped]),
        (3, 0, [Refused::Stopped, Refused::Stopped]),
        (0, 0, [Refused::Stopped, Refused::Stopped]),
    ] {
        let effort = Effort::new(operations);
        let error = locked.unwrap(&keys, &keks(&[]), &effort).unwrap_err();
        assert_eq!((0..9).filter(|_| effort.spend()).count(), left, "{operations}");
        let whys: Vec<_> = error.refused.iter().map(|(_, why)| why.clone()).collect();
        assert_eq!(whys, expected, "{operations}");
        let is_said =
            error.to_string().contains("there are more keys and recipients than are tried");
        assert_eq!(is_said, operations < 6, "{error}");
        // Which keys there were is nobody's business.
        assert!(!error.to_string().contains("2 of"), "{error}");
        let right = keks(&[(KID, key_encryption_key())]);
        packet.unwrap(&keys, &right, &effort).unwrap();
    }
    let effort = plenty();
    effort.end();
    let error = locked.unwrap(slice::from_ref(&keys[0]), &keks(&[]), &effort);
    assert_eq!(error.unwrap_err().refused[0].1, Refused::Stopped);
}
