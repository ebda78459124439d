//! Sealed secrets that somebody changed, signed otherwise, or pointed elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use confidential_fixtures::{SealingKey, Vault, recorded};
use kbs_client::Client;
use puller_config::{Secret, SecretReference};
use serde_json::json;
use support::{PATIENT, client, run};

const KID: &str = "kbs:///owner/key/sealing";

struct Stage {
    owner: SealingKey,
    client: Client,
    _file: tempfile::NamedTempFile,
}

fn client_of(vault: &Vault) -> (Client, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, vault.offline_file()).unwrap();
    let client = client(&[&format!("file={}", file.path().display())], PATIENT);
    (client, file)
}

fn open(client: &Client, text: &str) -> Result<Vec<u8>, String> {
    let reference = SecretReference::Sealed(Secret::from(text.to_owned()));
    run(client.reference(&reference))
}

fn stage() -> Stage {
    let owner = SealingKey::new(KID).unwrap();
    let stranger = SealingKey::new("kbs:///owner/key/stranger").unwrap();
    let vault = Vault::new()
        .with("owner/key/sealing", owner.public())
        .with("owner/key/stranger", stranger.public())
        .with("owner/key/nonsense", "hunter2")
        .with("owner/key/envelope", [5; 32])
        .with("owner/key/short", [5; 31])
        .with("repo/type/tag", "hunter2 and more")
        .with("repo/type/other", "hunter2 too");
    let (client, _file) = client_of(&vault);
    Stage { owner, client, _file }
}

impl Stage {
    fn open(&self, text: &str) -> Result<Vec<u8>, String> {
        open(&self.client, text)
    }

    fn refused(&self, text: &str, expected: &str) {
        let error = self.open(text).unwrap_err();
        assert!(error.starts_with("open a sealed secret: "), "{error}");
        assert!(error.contains(expected), "{expected:?} is not in: {error}");
    }
}

fn part(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

#[test]
fn only_the_owners_word_counts() {
    let stage = stage();
    let good = stage.owner.vault("kbs:///repo/type/tag");
    assert_eq!(stage.open(&good).unwrap(), b"hunter2 and more");

    let parts: Vec<&str> = good.split('.').collect();
    let [_, header, payload, signature] = parts[..] else {
        panic!("{good}");
    };
    let other = stage.owner.vault("kbs:///repo/type/other");
    let other: Vec<&str> = other.split('.').collect();
    let with_header = |header: serde_json::Value| {
        format!("sealed.{}.{payload}.{signature}", part(&header.to_string()))
    };
    for (text, expected) in [
        // The host points it elsewhere.
        (format!("sealed.{header}.{}.{signature}", other[2]), "the signature is not by this key"),
        (format!("sealed.{header}.{payload}.{}", other[3]), "the signature is not by this key"),
        // The host signs it itself, and names any key that the broker gives out.
        (
            SealingKey::new(KID).unwrap().vault("kbs:///repo/type/other"),
            "the signature is not by this key",
        ),
        (
            SealingKey::new("kbs:///owner/key/nonsense").unwrap().vault("kbs:///repo/type/other"),
            "read the key that verifies it, kbs:///owner/key/nonsense",
        ),
        (
            SealingKey::new("kbs:///repo/type/tag").unwrap().vault("kbs:///repo/type/other"),
            "read the key that verifies it",
        ),
        (
            SealingKey::new("kbs:///owner/key/absent").unwrap().vault("kbs:///repo/type/other"),
            "get the key that verifies it: get kbs:///owner/key/absent",
        ),
        (
            SealingKey::new("../../etc/hunter2").unwrap().vault("kbs:///repo/type/other"),
            "file names are not taken",
        ),
        (
            SealingKey::new("hunter2").unwrap().vault("kbs:///repo/type/other"),
            "file names are not taken",
        ),
        (
            SealingKey::new("kbs://owner/key/sealing").unwrap().vault("kbs:///repo/type/other"),
            "three slashes",
        ),
        (
            SealingKey::new("kbs+plugin:///a").unwrap().vault("kbs:///repo/type/other"),
            "names a plugin of the broker",
        ),
        // Nobody signs it.
        (with_header(json!({"alg": "none", "kid": KID})), "read its signed form"),
        (with_header(json!({"alg": "HS256", "kid": KID})), "read its signed form"),
        (with_header(json!({"alg": "ES384", "kid": KID})), "read its signed form"),
        (with_header(json!({"kid": KID})), "read its signed form"),
        (with_header(json!({"alg": "ES256"})), "its header has no \"kid\""),
        (with_header(json!({"alg": "ES256", "kid": 7})), "read its signed form"),
        (with_header(json!({"alg": "ES256", "kid": KID, "crit": ["b64"]})), "read its signed form"),
        (
            with_header(json!({"alg": "ES256", "kid": "kbs:///owner/key/stranger"})),
            "the signature is not by this key",
        ),
        (format!("sealed.{header}.{payload}."), "read its signed form"),
        (format!("sealed.{header}.{payload}.{}", part("hunter2")), "read its signed form"),
        (format!("sealed.fakejwsheader.{payload}.fakesignature"), "read its signed form"),
        (format!("sealed.{header}.{payload}"), "three parts"),
        (format!("sealed.fake.{header}.{payload}.{signature}"), "three parts"),
        (format!("{header}.{payload}.{signature}"), "three parts"),
        ("sealed.".to_owned(), "three parts"),
        ("hunter2".to_owned(), "three parts"),
    ] {
        stage.refused(&text, expected);
    }
}

/// Every secret that CoCo's `secret` sealed was refused once, because its headers have `b64`.
#[test]
fn what_cocos_own_tool_sealed_is_opened() {
    let expect = recorded("sealed/expect.json").unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&expect).unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        let text = |name: &str| row[name].as_str();
        let mut vault = Vault::new();
        if let Some(key) = text("key") {
            let public = recorded(&format!("sealed/{key}")).unwrap();
            vault = vault.with(&text("kid").unwrap()["kbs:///".len()..], public);
        }
        if let (Some(uri), Some(content)) = (text("resource"), text("content")) {
            vault = vault.with(&uri["kbs:///".len()..], content);
        }
        let (client, _file) = client_of(&vault);
        let sealed = recorded(&format!("sealed/{}", text("file").unwrap())).unwrap();
        match (open(&client, &sealed), text("content")) {
            (Ok(opened), Some(content)) => assert_eq!(opened, content.as_bytes(), "{row}"),
            (Err(error), None) => {
                let wanted = match text("refused").unwrap() {
                    "signature" => "the signature is not by this key",
                    _ => "get the key that verifies it: get kbs:///default/signing/nosuch",
                };
                assert!(error.contains(wanted), "{row}: {error}");
            }
            (outcome, _) => panic!("{row}: {outcome:?}"),
        }
    }
}

#[test]
fn every_changed_letter_is_noticed() {
    let stage = stage();
    let good = stage.owner.vault("kbs:///repo/type/tag");
    for at in "sealed.".len()..good.len() {
        let mut changed = good.clone().into_bytes();
        changed[at] = match changed[at] {
            b'A' => b'B',
            // The last letter of a part may have bits that mean nothing; then it has to be refused
            // for that.
            _ => b'A',
        };
        let changed = String::from_utf8(changed).unwrap();
        stage.open(&changed).unwrap_err();
    }
}

#[test]
fn what_the_owner_signed_has_to_make_sense() {
    let stage = stage();
    let vault = |name: &str, value: serde_json::Value| {
        let mut payload = json!({
            "version": "0.1.0",
            "type": "vault",
            "provider": "kbs",
            "name": "kbs:///repo/type/tag",
        });
        payload[name] = value;
        stage.owner.sign(&payload)
    };
    let envelope = |uri: &str| stage.owner.envelope(uri, &[5; 32], b"a secret").unwrap();
    assert_eq!(stage.open(&vault("more", json!(1))).unwrap(), b"hunter2 and more");
    let opened = stage.open(&envelope("kbs:///owner/key/envelope"));
    assert_eq!(opened.unwrap(), b"a secret");
    for (text, expected) in [
        (vault("version", json!("0.2.0")), "its payload has another version than 0.1.0"),
        (vault("type", json!("hunter2")), "neither of type \"vault\" nor \"envelope\""),
        (vault("provider", json!("aliyun")), "another provider than \"kbs\""),
        (vault("name", json!("hunter2")), "\"name\" of its payload is not the URI of a resource"),
        (
            vault("name", json!("kbs:///repo/type/absent")),
            "get what it points to: get kbs:///repo/type/absent",
        ),
        (stage.owner.sign(&json!(["hunter2"])), "is no JSON object"),
        (envelope("kbs:///owner/key/short"), "kbs:///owner/key/short is no key of 32 bytes"),
        (envelope("kbs:///repo/type/tag"), "kbs:///repo/type/tag is no key of 32 bytes"),
        (envelope("kbs:///owner/key/absent"), "get what it points to: get kbs:///owner/key/absent"),
        (
            stage.owner.envelope("kbs:///owner/key/envelope", &[6; 32], b"a secret").unwrap(),
            "\"encrypted_key\" of its payload was not encrypted",
        ),
    ] {
        stage.refused(&text, expected);
    }
}
