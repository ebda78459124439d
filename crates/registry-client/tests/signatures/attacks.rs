//! What a registry that lies, floods or hangs can do: make a pull fail, and nothing else.

use std::slice;
use std::time::Duration;

use image_policy::places::{MAX_CONTENT_BYTES, MAX_PLACE_BYTES, MAX_SIGNATURES};
use oci_image::manifest::MAX_MANIFEST_BYTES;
use registry_client::Patience;
use serde_json::json;
use test_http::{Answer, SILENCE, Server};

use crate::signatures::shelf::{
    SIMPLE, Shelf, asked, digest_of, fallback_tag, find, flood, index, manifest, referrers,
    signature_tag,
};
use crate::support::hasty;

/// A place that fails, alone and beside one that has a signature.
fn fails(name: &str, why: &str, broken: impl Fn(Shelf) -> Shelf) {
    let alone = broken(Shelf::default()).find();
    let error = alone.unwrap_err();
    assert!(error.contains(why), "{name}: {error}");
    assert!(error.len() < 700, "{name}: {error}");
    // What is broken may be the tag or the referrers; the other has the signature.
    let is_tag = broken(Shelf::default()).serve();
    let _ = find(&is_tag, &hasty());
    let signed = match is_broken(&is_tag, &signature_tag()) {
        true => Shelf::default().referred(fallback_tag(), &["good"]),
        false => Shelf::default().signed(&["good"]),
    };
    let found = broken(signed).find().unwrap();
    assert!(found[0].ends_with("good") && found.len() == 1, "{name}: {found:?}");
}

fn is_broken(server: &Server, path: &str) -> bool {
    let requests = server.requests();
    let is_it = |request: &&test_http::Request| request.target.ends_with(path);
    requests.iter().find(is_it).is_some_and(|request| request.status != 404)
}

#[test]
fn of_ten_thousand_signatures_few_are_fetched() {
    let numbers = 0..10_000;
    let layers = numbers.clone().map(|number| {
        let digest = digest_of(format!("payload {number}").as_bytes());
        let signature = format!("of payload {number}");
        json!({
            "mediaType": SIMPLE, "digest": digest.to_string(), "size": 9,
            "annotations": {"dev.cosignproject.cosign/signature": signature},
        })
    });
    let layers: Vec<_> = layers.collect();
    let text = manifest(&layers);
    assert!(text.len() > 2_000_000 && text.len() < MAX_MANIFEST_BYTES);
    let mut shelf = Shelf::default().text(signature_tag(), &text);
    for number in numbers {
        shelf = shelf.simple(&format!("payload {number}")).0;
    }
    let server = shelf.serve();
    let found = find(&server, &hasty()).unwrap();
    let half = MAX_SIGNATURES / 2;
    let want = (0..half).chain(10_000 - half..10_000);
    let want: Vec<_> = want.map(|number| format!("payload {number}")).collect();
    assert_eq!(found, want);
    assert_eq!(asked(&server).len(), MAX_SIGNATURES + 3);
    let found = crate::signatures::shelf::signatures(&server, &hasty()).unwrap();
    assert_eq!(found.left_out, 10_000 - MAX_SIGNATURES);
}

/// A builder that signs the same image each night signs the same payload.
#[test]
fn one_payload_is_fetched_once() {
    let (shelf, layer) = Shelf::default().simple("one");
    let signature = |number: usize| {
        let mut layer = layer.clone();
        layer["annotations"]["other"] = number.into();
        layer["annotations"]["dev.cosignproject.cosign/signature"] = number.to_string().into();
        layer
    };
    let layers: Vec<_> = (0..40).map(signature).collect();
    let server = shelf.text(signature_tag(), &manifest(&layers)).serve();
    let found = crate::signatures::shelf::signatures(&server, &hasty()).unwrap();
    assert_eq!((found.kept.len(), asked(&server).len()), (40, 4));
}

#[test]
fn many_referrers_hide_no_signature_of_the_tag() {
    let mut shelf = Shelf::default().signed(&["good"]);
    let mut digests = Vec::new();
    for number in 0..300 {
        let digest;
        (shelf, digest) = shelf.bundle(&format!("{number}"));
        digests.push(digest);
    }
    let server = shelf.text(referrers(), &index(&digests)).serve();
    let found = find(&server, &hasty()).unwrap();
    assert_eq!(found.len(), 1 + MAX_SIGNATURES);
    assert_eq!((found[0].as_str(), found[1].as_str()), ("good", "bundle 0"));
    assert_eq!(found[MAX_SIGNATURES], "bundle 299");
    assert_eq!(asked(&server).len(), 3 + 2 * MAX_SIGNATURES);
    // Nor do manifests that list many each bring more than one place may.
    let mut shelf = Shelf::default().signed(&["good"]);
    let mut digests = Vec::new();
    for of in 0..5 {
        let mut layers = Vec::new();
        for number in 0..40 {
            let layer;
            (shelf, layer) = shelf.simple(&format!("{of} {number}"));
            layers.push(layer);
        }
        let text = manifest(&layers);
        let digest = digest_of(text.as_bytes());
        shelf = shelf.text(format!("manifests/{digest}"), &text);
        digests.push(digest);
    }
    let found = shelf.text(referrers(), &index(&digests)).find().unwrap();
    assert_eq!(found.len(), 1 + MAX_SIGNATURES);
}

#[test]
fn large_signatures_fill_no_memory() {
    let large = |number: usize| format!("{number}{}", "x".repeat(MAX_CONTENT_BYTES - 1));
    let bundles: Vec<_> = (0..9).map(large).collect();
    let bundles: Vec<_> = bundles.iter().map(String::as_str).collect();
    let shelf = Shelf::default().referred(referrers(), &bundles);
    let found = shelf.signed(&["good"]).find().unwrap();
    assert_eq!(found.len(), 1 + MAX_PLACE_BYTES / MAX_CONTENT_BYTES);
    assert_eq!(found[0], "good");
}

#[test]
fn endless_answers_end() {
    let payload = digest_of(b"endless");
    let layer = json!({
        "mediaType": SIMPLE, "digest": payload.to_string(), "size": 7,
        "annotations": {"dev.cosignproject.cosign/signature": "of endless"},
    });
    for length in [None, Some(usize::MAX >> 1)] {
        let blob = format!("blobs/{payload}");
        let why = format!("more than {MAX_CONTENT_BYTES} bytes of signature");
        fails("payload", &why, |shelf| {
            let shelf = shelf.at(blob.clone(), flood(length));
            shelf.text(signature_tag(), &manifest(slice::from_ref(&layer)))
        });
        let why = format!("more than {MAX_MANIFEST_BYTES} bytes of signature manifest");
        fails("manifest", &why, |shelf| shelf.at(signature_tag(), flood(length)));
        let why = format!("more than {MAX_MANIFEST_BYTES} bytes of referrers");
        fails("referrers", &why, |shelf| shelf.at(referrers(), flood(length)));
        let why = format!("more than {MAX_MANIFEST_BYTES} bytes of index of referrers");
        fails("fallback", &why, |shelf| shelf.at(fallback_tag(), flood(length)));
    }
    // The others of the same manifest are there.
    let (shelf, good) = Shelf::default().simple("good");
    let shelf = shelf.at(format!("blobs/{payload}"), flood(None));
    let shelf = shelf.text(signature_tag(), &manifest(&[layer, good]));
    assert_eq!(shelf.find().unwrap(), ["good"]);
}

#[test]
fn other_content_than_the_digest_names_is_no_signature() {
    let other = digest_of(b"other");
    let layer = json!({
        "mediaType": SIMPLE, "digest": other.to_string(), "size": 5,
        "annotations": {"dev.cosignproject.cosign/signature": "of other"},
    });
    fails("payload", "sends another signature than was asked for", |shelf| {
        let shelf = shelf.text(format!("blobs/{other}"), "not that");
        shelf.text(signature_tag(), &manifest(slice::from_ref(&layer)))
    });
    fails("manifest", "sends another manifest than was asked for", |shelf| {
        let (shelf, digest) = shelf.bundle("bundle");
        let shelf = shelf.text(format!("manifests/{digest}"), &manifest(slice::from_ref(&layer)));
        shelf.text(referrers(), &index(&[digest]))
    });
    // What is listed and not there is no missing signature, but a broken registry.
    fails("gone", "404", |shelf| shelf.text(signature_tag(), &manifest(slice::from_ref(&layer))));
}

#[test]
fn lists_that_are_none_are_told() {
    let values = format!("{{\"layers\":[{}0]}}", "0,".repeat(100_000));
    let twice = "{\"layers\":[],\"layers\":[]}";
    for (text, why) in [
        (values.as_str(), "cannot be read: "),
        (twice, "cannot be read: "),
        (index(&[]).as_str(), "is no OCI manifest but "),
        ("", "cannot be read: "),
    ] {
        fails("manifest", why, |shelf| shelf.text(signature_tag(), text));
    }
    let many = format!("{{\"manifests\":[{}0]}}", "0,".repeat(100_000));
    for (text, why) in [(many.as_str(), "cannot be read: "), ("{}", "is no OCI index but ")] {
        fails("fallback", why, |shelf| shelf.text(fallback_tag(), text));
    }
}

/// An index among the referrers is no signature and leads nowhere.
#[test]
fn indexes_that_lead_to_each_other_end() {
    let inner = index(&[]);
    let digest = digest_of(inner.as_bytes());
    let outer = index(&[digest.clone(), digest.clone()]);
    let outer_digest = digest_of(outer.as_bytes());
    let shelf = Shelf::default()
        .text(format!("manifests/{digest}"), &inner)
        .text(format!("manifests/{outer_digest}"), &outer)
        // Its own digest it cannot have, but the registry's answer has none.
        .text(referrers(), &index(&[outer_digest, digest]));
    let server = shelf.serve();
    assert_eq!(find(&server, &hasty()), Ok(vec![]));
    assert_eq!(asked(&server).len(), 4);
}

#[test]
fn refusals_of_one_place_hide_no_other() {
    for (status, why) in [(401, "401"), (403, "403"), (418, "418"), (500, "500")] {
        for path in [signature_tag(), referrers(), fallback_tag()] {
            fails(&path.clone(), why, |shelf| shelf.at(path.clone(), Answer::new(status, &[], "")));
        }
    }
}

#[test]
fn referrers_that_redirect_are_followed_so_far() {
    let to = |location: &str| Answer::new(307, &[("Location", location)], "");
    let (shelf, digest) = Shelf::default().bundle("one");
    let shelf = shelf.text("elsewhere", &index(&[digest]));
    let shelf = shelf.at(referrers(), to("/v2/team/app/elsewhere"));
    assert_eq!(shelf.find().unwrap(), ["bundle one"]);
    // A registry that sends everybody to its page of things that are not there has no API.
    let shelf = Shelf::default().at(referrers(), to("/nothing"));
    assert_eq!(shelf.find(), Ok(vec![]));
    for (location, why) in [
        (format!("/v2/team/app/{}", referrers()), "redirects"),
        ("http://169.254.169.254/latest/".to_owned(), "redirects to 169.254.169.254"),
        ("file:///etc/passwd".to_owned(), "no HTTP address"),
    ] {
        fails("redirect", why, |shelf| shelf.at(referrers(), to(&location)));
    }
}

/// Once a place has said all or there is a signature, the rest is waited for only as long as a
/// source is before the next one is asked; before, for as long as a source at all.
#[test]
fn a_place_that_hangs_is_waited_for_as_patience_has_it() {
    let patience = Patience {
        budget: Duration::from_secs(3),
        budget_before_fallback: Duration::from_millis(700),
        ..hasty()
    };
    let unhurried = Patience { attempts: None, budget: Duration::from_secs(600), ..patience };
    let silence = || Answer::from(SILENCE.to_owned());
    let why = "it says nothing more about signatures for 0.7 s";
    for path in [referrers(), fallback_tag()] {
        let shelf = Shelf::default().signed(&["good"]);
        let server = shelf.at(path.clone(), silence()).serve();
        assert_eq!(find(&server, &unhurried).unwrap(), ["good"], "{path}");
        let server = Shelf::default().at(path.clone(), silence()).serve();
        let error = find(&server, &unhurried).unwrap_err();
        assert!(error.ends_with(why), "{path}: {error}");
        // One that is out of order is asked again for as long; what it says is told.
        let broken = Answer::new(503, &[], "");
        let server = Shelf::default().at(path.clone(), broken).serve();
        let error = find(&server, &unhurried).unwrap_err();
        assert!(error.contains(why) && error.contains("answers 503"), "{path}: {error}");
    }
    let shelf = Shelf::default().signed(&["good", "late"]);
    let late = format!("blobs/{}", digest_of(b"late"));
    let server = shelf.at(late, silence()).serve();
    assert_eq!(find(&server, &unhurried).unwrap(), ["good"]);
    let shelf = Shelf::default().referred(referrers(), &["good"]);
    let server = shelf.at(signature_tag(), silence()).serve();
    assert_eq!(find(&server, &unhurried).unwrap(), ["bundle good"]);
    let server = Server::always(silence());
    let error = find(&server, &patience).unwrap_err();
    assert!(error.contains("within the 3.0 s that this source is given"), "{error}");
}
