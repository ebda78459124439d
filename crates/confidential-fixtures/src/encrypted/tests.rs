//! The fixtures are what they say, and fail where they should.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::image::{manifest, read, text};
use super::wrap::private_options;
use super::{Encrypted, JWE, Key, KeyKind, PACKET, PUBLIC_OPTIONS};
use super::{Rewrap, Surgery, Version, Which, WrapType, encrypt};
use vm_harness::layout::{Compression, of_archives};
use vm_harness::process::run;
use vm_harness::{Scratch, archive};

/// An image of two small layers, gzip and zstd.
fn plain(scratch: &Scratch) -> std::path::PathBuf {
    let tar = |name: &str| {
        let content: Vec<u8> = (0..5000u32).flat_map(u32::to_le_bytes).collect();
        archive::Tar::default().file(name, content).bytes()
    };
    let layers = vec![(tar("one"), Compression::Gzip), (tar("two"), Compression::Zstd)];
    of_archives(&scratch.path().join("plain"), layers).unwrap().path
}

/// Whether `skopeo` itself decrypts an image to the plain layers.
fn decrypts(scratch: &Scratch, image: &Encrypted, key: &Key) -> Result<(), String> {
    let to = tempfile::tempdir_in(scratch.path()).unwrap();
    let arguments = [
        "copy".to_owned(),
        "--quiet".to_owned(),
        "--insecure-policy".to_owned(),
        "--decryption-key".to_owned(),
        key.private().display().to_string(),
        format!("oci:{}", image.path.display()),
        format!("oci:{}", to.path().display()),
    ];
    let output = run(scratch, "skopeo", arguments).unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let digests = |layout: &std::path::Path| -> Vec<Value> {
        let manifest = manifest(layout).unwrap();
        let layers = manifest["layers"].as_array().unwrap().clone();
        layers.iter().map(|layer| layer["digest"].clone()).collect()
    };
    if digests(to.path()) != digests(&scratch.path().join("plain")) {
        return Err("other layers".to_owned());
    }
    Ok(())
}

#[test]
fn skopeo_encrypts_for_every_kind_of_key() {
    let scratch = Scratch::new().unwrap();
    let plain = plain(&scratch);
    let keys =
        KeyKind::ALL.map(|kind| Key::generate(&scratch, &format!("{kind:?}"), kind).unwrap());
    for key in &keys {
        let name = format!("for-{:?}", key.kind);
        let image = encrypt(&scratch, &name, &plain, &[key], Which::All).unwrap();
        assert_eq!(decrypts(&scratch, &image, key), Ok(()), "{:?}", key.kind);
    }
    let all: Vec<&Key> = keys.iter().collect();
    let image = encrypt(&scratch, "for-all", &plain, &all, Which::Last).unwrap();
    for key in &keys {
        assert_eq!(decrypts(&scratch, &image, key), Ok(()), "{:?}", key.kind);
    }
    // The proof notices what is not encrypted, and what should not be.
    assert!(image.prove(&plain, Which::All).is_err());
    let nothing = Encrypted::open(plain.clone()).unwrap();
    assert!(nothing.prove(&plain, Which::Last).is_err());
}

#[test]
fn keys_come_in_every_container() {
    let scratch = Scratch::new().unwrap();
    for (kind, label) in [(KeyKind::Rsa2048, "RSA PRIVATE KEY"), (KeyKind::P384, "EC PRIVATE KEY")]
    {
        let key = Key::generate(&scratch, &format!("{kind:?}"), kind).unwrap();
        let begins =
            |text: &str, label: &str| text.starts_with(&format!("-----BEGIN {label}-----"));
        assert!(begins(&key.pem().unwrap(), "PRIVATE KEY"));
        assert!(begins(&key.traditional_pem().unwrap(), label));
        assert!(begins(&key.protected_pem("password").unwrap(), "ENCRYPTED PRIVATE KEY"));
        assert_eq!(key.der().unwrap()[0], 0x30);
    }
}

#[test]
fn surgery_changes_one_thing() {
    let scratch = Scratch::new().unwrap();
    let plain = plain(&scratch);
    let key = Key::generate(&scratch, "key", KeyKind::P256).unwrap();
    let image = encrypt(&scratch, "image", &plain, &[&key], Which::All).unwrap();
    type Change = fn(&mut Surgery) -> anyhow::Result<()>;
    let changes: [(&str, Change); 7] = [
        ("flip", |image| image.flip(0)),
        ("nonce", |image| image.public_nonce(1)),
        ("swap", |image| image.swap(0, 1)),
        ("strip", |image| image.strip(0)),
        ("annotations", |image| image.remove_annotations(0)),
        ("hmac", |image| {
            image.public_options(0, |options| {
                options.as_object_mut().unwrap().remove("hmac").unwrap();
            })
        }),
        ("cipher", |image| image.public_options(0, |options| options["cipher"] = json!("ROT13"))),
    ];
    let mut digests = vec![image.manifest.clone()];
    for (name, change) in changes {
        let mut surgery = Surgery::begin(&scratch, name, &image).unwrap();
        change(&mut surgery).unwrap();
        let changed = surgery.finish().unwrap();
        assert!(!digests.contains(&changed.manifest), "{name}");
        // Every blob still has the digest that names it.
        for layer in changed.layers().unwrap() {
            read(&changed.path, &layer).unwrap();
        }
        assert!(changed.prove(&plain, Which::All).is_err() || !["strip"].contains(&name));
        digests.push(changed.manifest);
    }
    // Nobody can open what was flipped.
    let flipped = Encrypted::open(scratch.path().join("flip")).unwrap();
    let refusal = decrypts(&scratch, &flipped, &key).unwrap_err();
    assert!(refusal.contains("decrypt"), "{refusal}");
}

#[test]
fn packets_hold_the_private_options() {
    let scratch = Scratch::new().unwrap();
    let plain = plain(&scratch);
    let key = Key::generate(&scratch, "key", KeyKind::Rsa2048).unwrap();
    let image = encrypt(&scratch, "image", &plain, &[&key], Which::Last).unwrap();
    let layers = image.layers().unwrap();
    let jwe = text(&layers[1]["annotations"], JWE).unwrap();
    let options = private_options(jwe, &key).unwrap();
    let symmetric = STANDARD.decode(text(&options, "symkey").unwrap()).unwrap();
    assert_eq!(symmetric.len(), 32);
    let plain_layers = Encrypted::open(plain.clone()).unwrap().layers().unwrap();
    assert_eq!(options["digest"], plain_layers[1]["digest"]);

    let mut rewrap = Rewrap::new("kbs:///default/key/image").unwrap();
    for (wrap_type, version, count) in
        [(WrapType::A256Gcm, Version::One, 4), (WrapType::A256Ctr, Version::Two, 8)]
    {
        (rewrap.wrap_type, rewrap.version) = (wrap_type, version);
        let name = format!("packets-{wrap_type:?}");
        let wrapped = rewrap.apply(&scratch, &name, &image, &key).unwrap();
        wrapped.prove(&plain, Which::Last).unwrap();
        let layers = wrapped.layers().unwrap();
        let annotations = layers[1]["annotations"].as_object().unwrap();
        let names: Vec<&str> = annotations.keys().map(String::as_str).collect();
        assert_eq!(names, [PACKET, PUBLIC_OPTIONS]);
        let packet = STANDARD.decode(annotations[PACKET].as_str().unwrap());
        let packet: Value = serde_json::from_slice(&packet.unwrap()).unwrap();
        assert_eq!(packet.as_object().unwrap().len(), count);
        let hidden = STANDARD.decode(text(&packet, "wrapped_data").unwrap());
        let hidden = hidden.unwrap();
        assert!(!String::from_utf8_lossy(&hidden).contains("symkey"));
        assert_eq!(
            hidden.len() - options.to_string().len(),
            if wrap_type == WrapType::A256Gcm { 16 } else { 0 }
        );
    }
}
