//! What joins a layer on its way gets its bytes with permission of its own, and not without.

use std::fs;

use confidential_fixtures::encrypted::{Key, KeyKind, Which, encrypt};
use fault_registry::Content;
use serde_json::json;
use vm_harness::Scratch;
use vm_harness::archive::Tar;
use vm_harness::layout::{Compression, of_archives};

use crate::image_policy::place::{document, signed_by};
use crate::linger::{Slow, status};
use crate::support::{Puller, names, noise, wait_until};

/// Asks for the image, and waits until its large layer is on its way.
fn begin(slow: &Slow, puller: &Puller) -> std::process::Child {
    let first = puller.ask(&slow.image(), "first");
    let flows = || status(puller)[0]["receivedBytes"].as_u64() > Some(0);
    wait_until(|| puller.log(), flows);
    first
}

/// A request that must get nothing, while the other one goes on.
#[track_caller]
fn assert_gets_nothing(puller: &Puller, image: &str, code: i32, words: &[&str]) {
    let output = puller.request(image, "second");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is missing in: {error}");
    }
    assert_eq!(names(&puller.store("containers")).len(), 0, "{error}");
}

/// The first request gets its image, and the registry sent the layer once.
fn assert_comes(slow: &Slow, puller: &Puller, mut first: std::process::Child) {
    assert!(first.try_wait().unwrap().is_none(), "nothing was in flight");
    assert!(first.wait().unwrap().success(), "{}", puller.log());
    assert!(puller.rootfs("first").join("large").exists());
    assert_eq!(slow.asked_for(0), 1);
}

#[test]
fn privileged_another_name_and_what_the_owner_says_count_for_who_joins() {
    vm_harness::needs_root!();
    let slow = Slow::start();
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start_with(&scratch, &slow.document, &[]);
    let key = Key::generate(&scratch, "team", KeyKind::P256).unwrap();
    let first = begin(&slow, &puller);

    // The same registry by a name for which nobody is trusted.
    let other_name = slow.image().replace("localhost:", "127.0.0.1:");
    assert_gets_nothing(&puller, &other_name, 69, &["127.0.0.1:", "is not trusted"]);
    // The same content under a name that the registry does not have.
    let port = slow.registry.address().port();
    let other_digest = format!("localhost:{port}/team/app@sha256:{}", "0".repeat(64));
    assert_gets_nothing(&puller, &other_digest, 69, &["404 Not Found"]);

    let measured = puller.document().with_file_name("measured.toml");
    fs::copy(key.public(), measured.with_file_name("team.pub")).unwrap();
    let policy = json!({"default": [signed_by("team.pub", "matchRepository")]});
    let policy = document(&policy, "");
    let pins = "only-pins = true\n".to_owned();
    for (owner, words) in [
        (policy, ["the image policy refuses", "no signature was found"]),
        (pins, ["only-pins = true", "[pins]"]),
    ] {
        puller.measure(&owner);
        assert_gets_nothing(&puller, &slow.image(), 65, &words);
    }
    puller.measure("");
    assert_comes(&slow, &puller, first);
}

/// An encrypted layer in flight is another's who has the key.
#[test]
fn privileged_a_key_is_needed_to_join() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let large = Tar::default().file("large", noise(1 << 20, 7)).bytes();
    let plain = scratch.path().join("plain");
    let plain = of_archives(&plain, vec![(large, Compression::Gzip)]).unwrap();
    let key = Key::generate(&scratch, "key", KeyKind::P256).unwrap();
    let image = encrypt(&scratch, "image", &plain.path, &[&key], Which::All).unwrap();
    let slow = Slow::of(Content::load(&image.path).unwrap(), &image.manifest);
    let written = crate::encrypted::place::written(key.pem().unwrap().as_bytes());
    let with_key = format!("{}[decryption-keys]\nkeys = [\"{written}\"]\n", slow.document);
    let puller = Puller::start_with(&scratch, &with_key, &[]);
    let first = begin(&slow, &puller);
    puller.configure(&slow.document);
    let words = ["is encrypted and there is no key for it"];
    assert_gets_nothing(&puller, &slow.image(), 69, &words);
    assert_comes(&slow, &puller, first);
}
