//! Layers that the real `skopeo` encrypted, which is the ocicrypt library that the others use too.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use keys::PrivateKey;
use keys::decryptor::SLACK_BYTES;
use keys::{Effort, Encryption, Forged, LayerKey};
use oci_image::digest::Digest;
use serde_json::{Value, json};

/// Whether the programs are there. Where every test has to run, missing ones are a failure.
fn has_programs(test: &str) -> bool {
    let missing: Vec<_> = [["skopeo", "--version"], ["openssl", "version"]]
        .into_iter()
        .filter(|[program, argument]| {
            let mut command = Command::new(program);
            let started = command.arg(argument).stdout(Stdio::null()).status();
            !started.is_ok_and(|status| status.success())
        })
        .map(|[program, _]| program)
        .collect();
    assert!(
        missing.is_empty() || std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(),
        "{test} needs {missing:?}"
    );
    if !missing.is_empty() {
        eprintln!("{test}: skipped, {missing:?} missing");
    }
    missing.is_empty()
}

fn run(program: &str, directory: &Path, arguments: &[&str]) {
    let output = Command::new(program).current_dir(directory).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

fn sha256(bytes: &[u8]) -> String {
    let zero = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
    let mut hasher = zero.hasher();
    hasher.update(bytes);
    hasher.finish().to_string()
}

/// Puts a blob into an OCI layout and gives its descriptor.
fn blob(layout: &Path, media_type: &str, bytes: &[u8]) -> Value {
    let digest = sha256(bytes);
    fs::write(layout.join("blobs").join(digest.replace(':', "/")), bytes).unwrap();
    json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
}

/// A compressed layer: skopeo would compress it otherwise, and then it is another one.
fn content(seed: u32, bytes: u32) -> Vec<u8> {
    let byte = |at: u32| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8;
    let plain: Vec<_> = (0..bytes).map(byte).collect();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(&plain).unwrap();
    encoder.finish().unwrap()
}

/// An image of two layers. Nobody looks into them.
fn image(layout: &Path) -> [Vec<u8>; 2] {
    fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let layers = [content(1, 100_003), content(2, 17)];
    let diff_ids: Vec<_> = layers.iter().map(|layer| sha256(layer)).collect();
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let config = config.to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(layout, "application/vnd.oci.image.config.v1+json", config.as_bytes()),
        "layers": [
            blob(layout, "application/vnd.oci.image.layer.v1.tar+gzip", &layers[0]),
            blob(layout, "application/vnd.oci.image.layer.v1.tar+gzip", &layers[1]),
        ],
    });
    let manifest = manifest.to_string();
    let manifest = blob(layout, "application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
    layers
}

/// What an image says about a layer, and the layer.
struct Layer {
    media_type: String,
    annotations: BTreeMap<String, String>,
    bytes: Vec<u8>,
}

fn layers(layout: &Path) -> Vec<Layer> {
    let read = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap()
    };
    let index: Value =
        serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
    let manifest: Value = serde_json::from_slice(&read(&index["manifests"][0])).unwrap();
    let layer = |descriptor: &Value| Layer {
        media_type: descriptor["mediaType"].as_str().unwrap().to_owned(),
        annotations: serde_json::from_value(descriptor["annotations"].clone()).unwrap_or_default(),
        bytes: read(descriptor),
    };
    manifest["layers"].as_array().unwrap().iter().map(layer).collect()
}

/// Asserts that a key gives a layer; a difference is not printed.
#[track_caller]
fn assert_decrypts(key: &LayerKey, ciphertext: &[u8], plain: &[u8]) {
    let (found, result) = decrypt(key, ciphertext);
    assert_eq!(result, Ok(()));
    assert!(found == plain);
}

fn decrypt(key: &LayerKey, ciphertext: &[u8]) -> (Vec<u8>, Result<(), Forged>) {
    let mut decryptor = key.decryptor().unwrap();
    let mut plain = vec![0; ciphertext.len() + SLACK_BYTES];
    let taken = decryptor.update(ciphertext, &mut plain).unwrap();
    assert_eq!(taken, ciphertext.len());
    plain.truncate(taken);
    (plain, decryptor.finish())
}

/// A private key `NAME.pem` and its public half `NAME.pub`.
fn make_key(directory: &Path, name: &str, arguments: &[&str]) -> PrivateKey {
    let (private, public) = (format!("{name}.pem"), format!("{name}.pub"));
    let arguments = [&["genpkey", "-out", &private], arguments].concat();
    run("openssl", directory, &arguments);
    run("openssl", directory, &["pkey", "-in", &private, "-pubout", "-out", &public]);
    PrivateKey::read(&fs::read(directory.join(private)).unwrap(), None).unwrap()
}

const RSA: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
const P256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
const P384: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"];
const P521: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"];

#[test]
fn what_skopeo_encrypts_is_decrypted() {
    if !has_programs("what_skopeo_encrypts_is_decrypted") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let plain = image(&at.join("plain"));
    let stranger = make_key(at, "stranger", P256);
    for (kind, algorithm) in [
        (RSA, "RSA-OAEP"),
        (P256, "ECDH-ES+A256KW"),
        (P384, "ECDH-ES+A256KW"),
        (P521, "ECDH-ES+A256KW"),
    ] {
        let key = make_key(at, "key", kind);
        let _ = fs::remove_dir_all(at.join("encrypted"));
        run(
            "skopeo",
            at,
            &["copy", "-q", "--encryption-key", "jwe:key.pub", "oci:plain", "oci:encrypted"],
        );
        let keys = [make_key(at, "other", kind), key];
        let layers = layers(&at.join("encrypted"));
        assert_eq!(layers.len(), plain.len());
        let mut found = Vec::new();
        for (layer, plain) in layers.iter().zip(&plain) {
            assert!(layer.media_type.ends_with("+encrypted") && &layer.bytes != plain);
            let encryption = Encryption::parse(&layer.annotations).unwrap();
            assert!(encryption.uses_keys());
            let unlocked = encryption.unwrap(&keys, &BTreeMap::new(), &Effort::new(8)).unwrap();
            assert_eq!((&*unlocked.how, unlocked.by), (algorithm, Some(1)));
            assert_decrypts(&unlocked.key, &layer.bytes, plain);
            let wrong = encryption.unwrap(
                std::slice::from_ref(&stranger),
                &BTreeMap::new(),
                &Effort::new(8),
            );
            let error = wrong.unwrap_err().to_string();
            assert!(error.starts_with("JWE 1: "), "{error}");
            let error =
                encryption.unwrap(&[], &BTreeMap::new(), &Effort::new(8)).unwrap_err().to_string();
            assert!(error.contains("no decryption key"), "{error}");
            found.push(unlocked.key);
        }
        // The key of one layer is no key for another.
        let (_, result) = decrypt(&found[0], &layers[1].bytes);
        assert_eq!(result, Err(Forged::Hmac));
    }
}

#[test]
fn each_of_several_recipients_has_a_way() {
    if !has_programs("each_of_several_recipients_has_a_way") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let plain = image(&at.join("plain"));
    let keys = [make_key(at, "rsa", RSA), make_key(at, "ec", P384)];
    let both = ["--encryption-key", "jwe:rsa.pub", "--encryption-key", "jwe:ec.pub"];
    let last = ["--encrypt-layer", "-1", "oci:plain", "oci:encrypted"];
    run("skopeo", at, &[&["copy", "-q"], &both[..], &last].concat());
    let layers = layers(&at.join("encrypted"));
    assert!(!layers[0].media_type.ends_with("+encrypted"));
    assert!(layers[0].bytes == plain[0]);
    assert!(layers[1].media_type.ends_with("+encrypted"));
    let encryption = Encryption::parse(&layers[1].annotations).unwrap();
    for (key, expected) in keys.iter().zip(["RSA-OAEP", "ECDH-ES+A256KW"]) {
        let unlocked = encryption
            .unwrap(std::slice::from_ref(key), &BTreeMap::new(), &Effort::new(8))
            .unwrap();
        assert_eq!((&*unlocked.how, unlocked.by), (expected, Some(0)));
        assert_decrypts(&unlocked.key, &layers[1].bytes, &plain[1]);
    }
}

/// Keys that are added come behind a comma; and an image for PKCS#7 only is refused by that name.
#[test]
fn schemes_stand_side_by_side() {
    if !has_programs("schemes_stand_side_by_side") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let plain = image(&at.join("plain"));
    let first = make_key(at, "first", P256);
    let second = make_key(at, "second", RSA);
    let request = ["req", "-x509", "-key", "second.pem", "-subj", "/CN=test", "-out", "second.crt"];
    run("openssl", at, &request);
    let copy = |arguments: &[&str]| run("skopeo", at, &[&["copy", "-q"], arguments].concat());
    copy(&["--encryption-key", "jwe:first.pub", "oci:plain", "oci:one"]);
    copy(&["--encryption-key", "jwe:second.pub", "oci:plain", "oci:two"]);
    copy(&["--encryption-key", "pkcs7:second.crt", "oci:plain", "oci:pkcs7"]);
    copy(&[
        "--encryption-key",
        "pkcs7:second.crt",
        "--encryption-key",
        "jwe:first.pub",
        "oci:plain",
        "oci:both",
    ]);

    for (layer, plain) in layers(&at.join("pkcs7")).iter().zip(&plain) {
        assert!(layer.media_type.ends_with("+encrypted") && &layer.bytes != plain);
        let encryption = Encryption::parse(&layer.annotations).unwrap();
        assert!(!encryption.uses_keys());
        let error = encryption
            .unwrap(std::slice::from_ref(&second), &BTreeMap::new(), &Effort::new(8))
            .unwrap_err();
        assert!(error.to_string().contains("PKCS#7: this is not supported"), "{error}");
    }
    for layer in layers(&at.join("both")) {
        let encryption = Encryption::parse(&layer.annotations).unwrap();
        encryption.unwrap(std::slice::from_ref(&first), &BTreeMap::new(), &Effort::new(8)).unwrap();
    }
    // skopeo cannot add a key, so this puts one that is of no use before the right one.
    let jwe = "org.opencontainers.image.enc.keys.jwe";
    let others = layers(&at.join("two"));
    for ((layer, other), plain) in layers(&at.join("one")).iter().zip(&others).zip(&plain) {
        let mut annotations = layer.annotations.clone();
        let list = format!("{},{}", other.annotations[jwe], annotations[jwe]);
        annotations.insert(jwe.to_owned(), list);
        let encryption = Encryption::parse(&annotations).unwrap();
        let unlocked = encryption
            .unwrap(std::slice::from_ref(&first), &BTreeMap::new(), &Effort::new(8))
            .unwrap();
        assert_decrypts(&unlocked.key, &layer.bytes, plain);
    }
}
