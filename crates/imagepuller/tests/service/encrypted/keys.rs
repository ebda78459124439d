//! Every kind of key, in every container, by every way that leads to one.

use confidential_fixtures::Vault;
use confidential_fixtures::encrypted::{KeyKind, Rewrap, Version, Which, WrapType};

use super::place::{Place, written};

#[test]
fn privileged_every_kind_of_key_opens_what_skopeo_closed() {
    vm_harness::needs_root!();
    let place = Place::start();
    let expected = place.expected();
    let keys = KeyKind::ALL.map(|kind| place.key(&format!("{kind:?}"), kind));
    for key in &keys {
        let image = place.encrypt(&format!("for-{:?}", key.kind), &[key], Which::All);
        let image = place.push(&image);
        let algorithm = match key.kind {
            KeyKind::Rsa2048 => "RSA-OAEP",
            _ => "ECDH-ES+A256KW",
        };
        for (container, written) in [
            ("PKCS#8", written(key.pem().unwrap().as_bytes())),
            ("DER", written(&key.der().unwrap())),
            ("traditional", written(key.traditional_pem().unwrap().as_bytes())),
            (
                "encrypted",
                format!(
                    "{}:{}",
                    written(key.protected_pem("hunter2").unwrap().as_bytes()),
                    written(b"hunter2")
                ),
            ),
        ] {
            let pulled = place.pull(&image, &place.document(&[written]), &[]);
            assert_eq!(pulled.files(), expected, "{:?} as {container}", key.kind);
            let unlocked = pulled.unlocked();
            assert_eq!(unlocked.len(), 3);
            for how in unlocked {
                assert!(how.contains(algorithm), "{how}");
                assert!(how.contains("key 1 of [decryption-keys] in the node's document"), "{how}");
            }
        }
    }
}

#[test]
fn privileged_one_of_several_recipients_is_enough() {
    vm_harness::needs_root!();
    let place = Place::start();
    let expected = place.expected();
    let keys = KeyKind::ALL.map(|kind| place.key(&format!("{kind:?}"), kind));
    let other = place.key("other", KeyKind::P256);
    let all: Vec<_> = keys.iter().collect();
    for which in [Which::All, Which::Last] {
        let image = place.push(&place.encrypt(&format!("for-all-{which:?}"), &all, which));
        for key in &keys {
            let keys = [&other, key].map(|key| written(key.pem().unwrap().as_bytes()));
            let pulled = place.pull(&image, &place.document(&keys), &[]);
            assert_eq!(pulled.files(), expected, "{:?}", key.kind);
            let unlocked = pulled.unlocked();
            assert_eq!(unlocked.len(), if which == Which::All { 3 } else { 1 });
            assert!(unlocked[0].contains("key 2 of"), "{unlocked:?}");
        }
    }
}

/// Neither the document nor its keys: what the manifest names is fetched, and what the document
/// names.
#[test]
fn privileged_keys_are_fetched_by_reference() {
    vm_harness::needs_root!();
    let place = Place::start();
    let expected = place.expected();
    let key = place.key("key", KeyKind::Rsa2048);
    let for_key = place.encrypt("for-key", &[&key], Which::All);
    let vault = Vault::new().with("team/image-key/a", key.pem().unwrap());
    let document = place.document(&["kbs:///team/image-key/a".to_owned()]);
    let pulled = place.pull_with(&place.push(&for_key), &document, &vault);
    assert_eq!(pulled.files(), expected);
    assert!(pulled.unlocked()[0].contains("kbs:///team/image-key/a"), "{:?}", pulled.unlocked());

    for version in [Version::One, Version::Two] {
        let rewrap = Rewrap { version, ..Rewrap::new("kbs:///team/kek/b").unwrap() };
        let name = format!("packets-{version:?}");
        let image = rewrap.apply(&place.0.scratch, &name, &for_key, &key).unwrap();
        let image = place.push(&image);
        let vault = Vault::new().with("team/kek/b", rewrap.key);
        let pulled = place.pull_with(&image, &place.document(&[]), &vault);
        assert_eq!(pulled.files(), expected, "{version:?}");
        let unlocked = pulled.unlocked();
        assert!(unlocked.iter().all(|how| how.contains("kbs:///team/kek/b")), "{unlocked:?}");

        let nobody = place.pull(&image, &place.document(&[]), &[]).refusal(69);
        assert!(nobody.contains("is encrypted and there is no key for it"), "{nobody}");
        assert!(nobody.contains("kbs:///team/kek/b"), "{nobody}");
        // Another secret, whose length is nobody's business, and another key.
        for (other, word, kept) in [
            (&b"hunter2"[..], "gave nothing usable", "is no key of 32 bytes"),
            (&[0; 32], "the key of that name does not open it", ""),
        ] {
            let vault = Vault::new().with("team/kek/b", other);
            let pulled = place.pull_with(&image, &place.document(&[]), &vault);
            let refusal = pulled.refusal(69);
            assert!(refusal.contains("there is no key for it"), "{refusal}");
            assert!(refusal.contains(word), "{refusal}");
            assert!(pulled.reasons.contains(kept), "{}", pulled.reasons);
            let all = refusal + &pulled.reasons;
            assert!(!all.contains("7 bytes"), "{all}");
        }
    }

    // Without a tag, whoever pushes the manifest could change the wrapped key and learn it from the
    // answers.
    let rewrap =
        Rewrap { wrap_type: WrapType::A256Ctr, ..Rewrap::new("kbs:///team/kek/b").unwrap() };
    let image = rewrap.apply(&place.0.scratch, "packets-ctr", &for_key, &key).unwrap();
    let vault = Vault::new().with("team/kek/b", rewrap.key);
    let refused = place.pull_with(&place.push(&image), &place.document(&[]), &vault);
    let refusal = refused.refusal(69);
    assert!(refusal.contains("A256CTR"), "{refusal}");
}

/// What the host names as a key may be any secret of the broker's, or none: nothing of it is said,
/// nor what it is instead, nor whether there is one.
#[test]
fn privileged_another_secret_in_the_place_of_a_key_stays_secret() {
    vm_harness::needs_root!();
    let place = Place::start();
    let key = place.key("key", KeyKind::P256);
    let image = place.push(&place.encrypt("image", &[&key], Which::All));
    let document = place.document(&["kbs:///team/credential/a".to_owned()]);
    let mut said = Vec::new();
    for secret in [
        "hunter2".to_owned(),
        "x".repeat(100_000),
        key.protected_pem("hunter2").unwrap(),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
        r#"{"kty":"oct","k":"aHVudGVyMg"}"#.to_owned(),
    ] {
        let vault = Vault::new().with("team/credential/a", &secret);
        let pulled = place.pull_with(&image, &document, &vault);
        let why = "is no private key that can be used";
        assert!(pulled.reasons.contains(why), "{}", pulled.reasons);
        let refusal = pulled.refusal(69);
        said.push(refusal.split_once("is encrypted").unwrap().1.to_owned());
    }
    let nothing = place.pull_with(&image, &document, &Vault::new());
    assert!(nothing.reasons.contains("does not have it"), "{}", nothing.reasons);
    let refusal = nothing.refusal(69);
    said.push(refusal.split_once("is encrypted").unwrap().1.to_owned());
    let words = "kbs:///team/credential/a: the broker gave nothing usable to this guest";
    assert!(said[0].contains(words), "{}", said[0]);
    said.dedup();
    assert_eq!(said.len(), 1, "{said:#?}");
}

/// A node's document has the keys of many teams; one pull once tried and fetched all of them.
#[test]
fn privileged_keys_for_other_repositories_are_neither_tried_nor_fetched() {
    vm_harness::needs_root!();
    let place = Place::start();
    let expected = place.expected();
    let key = place.key("key", KeyKind::P256);
    let image = place.push(&place.encrypt("mine", &[&key], Which::All));
    let host = image.split('/').next().unwrap();
    let given = written(key.pem().unwrap().as_bytes());
    let vault = Vault::new().with("team/image-key/a", key.pem().unwrap());
    for item in [&*given, "kbs:///team/image-key/a"] {
        for (name, opens) in [
            ("", true),
            ("/team", true),
            ("/team/mine", true),
            ("/team/min", false),
            ("/team/mine/below", false),
            ("/other", false),
        ] {
            let mut document = place.document(&[]);
            let table = format!("[decryption-keys.\"{host}{name}\"]\nkeys = [\"{item}\"]\n");
            document.push_str(&table);
            let pulled = place.pull_with(&image, &document, &vault);
            if opens {
                assert_eq!(pulled.files(), expected, "{name}");
                continue;
            }
            let refusal = pulled.refusal(69);
            assert!(refusal.contains("there is no key for it"), "{refusal}");
            assert!(!refusal.contains("image-key"), "fetched: {refusal}");
        }
    }
}
