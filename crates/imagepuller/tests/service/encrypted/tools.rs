//! Tools that compress and encrypt in one step. They wrap the digest of the blob that they began
//! with, which is not the digest of the plain layer and may be nowhere in the image.

use std::path::Path;

use confidential_fixtures::encrypted::{Encrypted, Key, KeyKind};
use confidential_fixtures::{recorded, recorded_bytes, recorded_path};
use serde_json::Value;
use vm_harness::Scratch;
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression};
use vm_harness::process::run_checked;

use super::place::{Place, written};

/// buildah 1.28.2 and skopeo 1.9.3, each from a source of another kind.
#[test]
fn privileged_what_tools_wrote_is_pulled() {
    vm_harness::needs_root!();
    let place = Place::start();
    let expected: Value = serde_json::from_str(&recorded("images/expect.json").unwrap()).unwrap();
    let images = expected.as_array().unwrap();
    assert_eq!(images.len(), 7);
    for image in images {
        let name = image["dir"].as_str().unwrap();
        let encrypted = Encrypted::open(recorded_path(&format!("images/{name}"))).unwrap();
        assert_eq!(encrypted.manifest, image["manifest"]);
        let key = format!("images/{}", image["key"].as_str().unwrap());
        let document = place.document(&[written(&recorded_bytes(&key).unwrap())]);
        let pulled = place.pull(&place.push(&encrypted), &document, &[]);
        assert_eq!(pulled.unlocked().len(), 1, "{name}: {:?}", pulled.output);
        for (file, content) in image["file"].as_object().unwrap() {
            let found = std::fs::read_to_string(pulled.rootfs.join(file)).unwrap();
            assert_eq!(found, content.as_str().unwrap(), "{name}");
        }
    }
}

fn skopeo(scratch: &Scratch, arguments: &[&str]) {
    let arguments = [&["copy", "--quiet", "--insecure-policy"], arguments].concat();
    run_checked(scratch, "skopeo", arguments).unwrap();
}

fn at(scratch: &Scratch, kind: &str, name: &str) -> String {
    format!("{kind}:{}", scratch.path().join(name).display())
}

/// The installed skopeo, from sources that it compresses first.
#[test]
fn privileged_skopeo_may_compress_while_it_encrypts() {
    vm_harness::needs_root!();
    let place = Place::start();
    let scratch = &place.0.scratch;
    // Docker's archives know no zstd.
    let tar = Tar::default().directory("etc").file("etc/secret", "s".repeat(70_000));
    let upper = Tar::default().file("etc/.wh.nothing", "").symlink("name", "etc");
    let layers = [tar, upper, Tar::default().file("a", "x").file("b", "y").directory("c")];
    let layers = layers.map(|layer| (layer.bytes(), Compression::Gzip));
    let layout = layout::of_archives(&scratch.path().join("gzip"), layers.into()).unwrap();
    let image = place.push(&Encrypted::open(layout.path.clone()).unwrap());
    let expected = place.pull(&image, &place.document(&[]), &[]).files();
    let key = place.key("key", KeyKind::Rsa2048);
    let document = place.document(&[written(key.pem().unwrap().as_bytes())]);
    let plain = format!("oci:{}", layout.path.display());
    let archive = at(scratch, "docker-archive", "archive.tar");
    let unpacked = at(scratch, "dir", "uncompressed");
    skopeo(scratch, &[&plain, &format!("{archive}:app:1")]);
    skopeo(scratch, &["--dest-decompress", &plain, &unpacked]);
    let recipient = format!("jwe:{}", key.public().display());
    for (name, source, more) in [
        ("from-archive", &archive, &[][..]),
        ("from-uncompressed", &unpacked, &[]),
        ("from-gzip", &plain, &["--dest-compress-format", "zstd"]),
        ("zstd-from-tar", &unpacked, &["--dest-compress-format", "zstd"]),
    ] {
        let target = at(scratch, "oci", name);
        let key = ["--encryption-key", &recipient, source, &target];
        skopeo(scratch, &[more, &key].concat());
        let encrypted = Encrypted::open(scratch.path().join(name)).unwrap();
        let pulled = place.pull(&place.push(&encrypted), &document, &[]);
        assert_eq!(pulled.files(), expected, "{name}");
        assert_eq!(pulled.unlocked().len(), 3, "{name}");
    }
}

/// Makes an image of one file and pushes it to a layout, encrypted for `key`.
fn buildah(scratch: &Scratch, content: &Path, key: &Key, to: &str) {
    let [root, run] = ["buildah", "buildah-run"].map(|name| scratch.path().join(name));
    let store = [
        "--root",
        root.to_str().unwrap(),
        "--runroot",
        run.to_str().unwrap(),
        "--storage-driver",
        "vfs",
    ];
    let call = |arguments: &[&str]| {
        let output = run_checked(scratch, "buildah", [&store, arguments].concat()).unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let container = call(&["from", "scratch"]);
    call(&["add", &container, content.to_str().unwrap(), "/etc/secret"]);
    call(&["commit", "--quiet", &container, "image"]);
    let recipient = format!("jwe:{}", key.public().display());
    call(&["push", "--quiet", "--encryption-key", &recipient, "image", to]);
}

#[test]
fn privileged_what_buildah_pushes_encrypted_is_pulled() {
    vm_harness::needs_root!();
    let place = Place::start();
    let scratch = &place.0.scratch;
    for kind in [KeyKind::Rsa2048, KeyKind::P384] {
        let name = format!("{kind:?}");
        let key = place.key(&name, kind);
        let content = scratch.path().join("content");
        std::fs::write(&content, &name).unwrap();
        buildah(scratch, &content, &key, &format!("{}:app", at(scratch, "oci", &name)));
        let encrypted = Encrypted::open(scratch.path().join(&name)).unwrap();
        let document = place.document(&[written(key.pem().unwrap().as_bytes())]);
        let pulled = place.pull(&place.push(&encrypted), &document, &[]);
        assert_eq!(pulled.unlocked().len(), 1, "{name}: {:?}", pulled.output);
        let found = std::fs::read_to_string(pulled.rootfs.join("etc/secret")).unwrap();
        assert_eq!(found, name);
    }
}
