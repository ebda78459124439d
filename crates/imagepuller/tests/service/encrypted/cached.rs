//! Layers that the store has already: having them is no leave to use them.

use std::fs;

use confidential_fixtures::encrypted::{KeyKind, Surgery, Which};
use serde_json::json;

use super::place::{Place, written};
use crate::support::{Puller, names};
use vm_harness::walk::walk;

#[test]
fn privileged_an_image_without_its_key_is_refused_however_often_it_ran() {
    vm_harness::needs_root!();
    let place = Place::start();
    let key = place.key("key", KeyKind::P384);
    let other = place.key("other", KeyKind::P384);
    let image = place.push(&place.encrypt("image", &[&key], Which::All));
    let document = |key: &confidential_fixtures::encrypted::Key| {
        place.document(&[written(key.pem().unwrap().as_bytes())])
    };
    let mut puller = Puller::start(&place.0.scratch, Some(&document(&key)));
    let rootfs = puller.pull(&image, "with-key");
    assert_eq!(fs::read(rootfs.join("etc/both")).unwrap(), b"upper");
    assert!(puller.log().contains("layer unlocked"), "{}", puller.log());

    let words = ["is encrypted and there is no key for it"];
    for document in [place.document(&[]), document(&other)] {
        puller.configure(&document);
        puller.refuse(&image, 69, &words);
    }
    // Nor after the service forgot everything but its store.
    puller.kill();
    puller.restart();
    puller.refuse(&image, 69, &words);
    puller.configure(&document(&key));
    puller.pull(&image, "again");
    let log = puller.log();
    assert_eq!(log.matches("layer unpacked").count(), 3, "the layers were shared: {log}");
    let layers = names(&puller.store("layers"));
    assert_eq!(layers.len(), 3);
    // No image can name one of these: what stands in its configuration leads to names of the other
    // kind.
    assert!(layers.iter().all(|name| name.starts_with("keyed-")), "{layers:?}");
}

/// The configuration of an encrypted image is public. Who copies it names the digests of its plain
/// layers, and a store that goes by these alone would hand them out.
#[test]
fn privileged_naming_the_plain_layers_of_others_gives_nothing() {
    vm_harness::needs_root!();
    let place = Place::start();
    let key = place.key("key", KeyKind::P256);
    let image = place.encrypt("image", &[&key], Which::All);
    let document = place.document(&[written(key.pem().unwrap().as_bytes())]);
    let puller = Puller::start(&place.0.scratch, Some(&document));
    let theirs = puller.pull(&place.push(&image), "theirs");

    // An image with the same configuration, whose blobs are the attacker's.
    let mut surgery = Surgery::begin(&place.0.scratch, "copied", &image).unwrap();
    for at in 0..3 {
        surgery.replace(at, b"not the layer").unwrap();
        surgery.remove_annotations(at).unwrap();
        surgery.layer(at)["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar");
    }
    let copied = place.push(&surgery.finish().unwrap());
    puller.configure(&place.document(&[]));
    puller.refuse(&copied, 65, &["layer sha256:"]);

    // The other way round nothing is kept back: who has the plain image does not need a key.
    let plain = puller.pull(&place.push_plain(), "plain");
    assert_eq!(walk(&plain.join("etc")), walk(&theirs.join("etc")));
}
