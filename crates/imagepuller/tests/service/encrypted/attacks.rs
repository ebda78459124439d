//! What somebody without the key makes of an encrypted image. Its digest is right each time: the
//! attacker is the image's author, or the reference came from him.

use std::collections::BTreeSet;

use anyhow::Result;
use confidential_fixtures::encrypted::{Encrypted, Key, KeyKind, Surgery, Which};

use super::place::{Place, written};

type Change = fn(&mut Surgery) -> Result<()>;

/// What is no key.
const CANARY: &str = "hunter2-in-the-coal-mine";

const JWE: &str = "org.opencontainers.image.enc.keys.jwe";
const OPTIONS: &str = "org.opencontainers.image.enc.pubopts";

/// The change, the exit code, and what the message says.
const ATTACKS: [(&str, Change, i32, &[&str]); 11] = [
    ("flipped byte", |image| image.flip(0), 65, &["the HMAC of the encrypted layer does not hold"]),
    (
        "nonce in the public options",
        |image| image.public_nonce(0),
        65,
        &["cannot be decrypted", "options of the cipher are in public"],
    ),
    (
        "no HMAC",
        |image| {
            image.public_options(0, |options| drop(options.as_object_mut().unwrap().remove("hmac")))
        },
        65,
        &["cannot be decrypted", "hmac"],
    ),
    (
        "another HMAC",
        |image| {
            image.public_options(0, |options| {
                options["hmac"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".into()
            })
        },
        65,
        &["the HMAC of the encrypted layer does not hold"],
    ),
    (
        "unknown cipher",
        |image| image.public_options(0, |options| options["cipher"] = "AES_256_CTR".into()),
        65,
        &["cannot be decrypted", "AES_256_CTR"],
    ),
    (
        "no public options",
        |image| image.remove_annotation(0, OPTIONS),
        65,
        &["cannot be decrypted", "pubopts\" is missing"],
    ),
    (
        "no keys",
        |image| image.remove_annotation(0, JWE),
        65,
        &["cannot be decrypted", "so the layer's key is lost"],
    ),
    (
        "no annotations",
        |image| image.remove_annotations(0),
        65,
        &["cannot be decrypted", "pubopts\" is missing"],
    ),
    (
        "type of a plain layer",
        |image| image.strip(0),
        65,
        &["annotations that describe its encryption"],
    ),
    (
        "type of a plain layer, and no annotations",
        |image| {
            image.strip(0)?;
            image.remove_annotations(0)
        },
        65,
        &["layer sha256:"],
    ),
    (
        "layers swapped with their annotations",
        |image| image.swap(0, 1),
        65,
        &["not the layer that the image configuration names"],
    ),
];

#[test]
fn privileged_nobody_without_the_key_gets_anything() {
    vm_harness::needs_root!();
    let place = Place::start();
    let key = place.key("key", KeyKind::P256);
    let image = place.encrypt("image", &[&key], Which::All);
    let right = place.document(&[pem(&key)]);
    assert_eq!(place.pull(&place.push(&image), &right, &[]).files(), place.expected());

    let (mut wrong, mut said) = (Vec::new(), BTreeSet::new());
    for (at, (name, change, code, words)) in ATTACKS.iter().enumerate() {
        let mut surgery =
            Surgery::begin(&place.0.scratch, &format!("attack-{at}"), &image).unwrap();
        change(&mut surgery).unwrap();
        let changed = place.push(&surgery.finish().unwrap());
        let message = place.pull(&changed, &right, &[]).refusal(*code);
        said.insert(without_digests(&message));
        for word in *words {
            if !message.contains(word) {
                wrong.push(format!("{name}: {message}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Each has words of its own, but for two that break the HMAC and two without public options.
    assert_eq!(said.len(), ATTACKS.len() - 2, "{said:#?}");
    wrong_keys(&place, &image);
}

/// The image as it is, for somebody who has other keys.
fn wrong_keys(place: &Place, image: &Encrypted) {
    let image = place.push(image);
    let same_curve = pem(&place.key("same-curve", KeyKind::P256));
    let rsa = pem(&place.key("rsa", KeyKind::Rsa2048));
    let absent = "kbs:///team/image-key/absent".to_owned();
    let none = "there is no key for it";
    for (keys, words) in [
        (vec![], &[none, "there is no decryption key to try"][..]),
        (vec![same_curve.clone()], &[none, "no private key opens it"]),
        (vec![rsa.clone(), same_curve], &[none, "no private key opens it"]),
        (vec![written(CANARY.as_bytes()), rsa], &[none, "key 1 of [decryption-keys]"]),
        (vec![absent], &[none, "kbs:///team/image-key/absent"]),
    ] {
        let pulled = place.pull(&image, &place.document(&keys), &[]);
        let message = pulled.refusal(69);
        for word in words {
            assert!(message.contains(word), "{keys:?}: {message}");
        }
        let all = format!("{message}{}", String::from_utf8_lossy(&pulled.output.stdout));
        assert!(!all.contains(CANARY), "{all}");
        for key in keys.iter().filter(|key| !key.starts_with("kbs:")) {
            // Any piece of it, behind the label that all keys have.
            let body = &key.as_bytes()[key.len() / 2..];
            for piece in body.chunks_exact(12) {
                let piece = std::str::from_utf8(piece).unwrap();
                assert!(!all.contains(piece), "{all}");
            }
        }
    }
}

fn without_digests(message: &str) -> String {
    let words = message.split_inclusive([' ', ':', '@']);
    words
        .filter(|word| {
            !(word.len() > 60 && word.bytes().take(60).all(|byte| byte.is_ascii_hexdigit()))
        })
        .filter(|word| !word.contains("team/attack-"))
        .collect()
}

fn pem(key: &Key) -> String {
    written(key.pem().unwrap().as_bytes())
}
