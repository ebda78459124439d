use serde_json::json;

use super::*;

const ONE: &str = "sha256:f7ff70f91006e54ed820c234f5392b780d2cbbde0ef52c7dba4fb49c79fcb71a";

fn numbered(number: usize) -> String {
    format!("sha256:{number:064x}")
}

fn simple(number: usize) -> serde_json::Value {
    json!({
        "mediaType": SIMPLE_SIGNING, "digest": numbered(number), "size": 1,
        "annotations": {SIGNATURE: "AAAA", "dev.sigstore.cosign/bundle": "{}"},
    })
}

fn manifest(layers: &[serde_json::Value]) -> Vec<u8> {
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers});
    manifest.to_string().into_bytes()
}

fn index(entries: &[serde_json::Value]) -> Vec<u8> {
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
    index.to_string().into_bytes()
}

#[test]
fn tags_are_named_by_the_digest() {
    let digest = Digest::parse(ONE).unwrap();
    let name = ONE.replace(':', "-");
    assert_eq!(signature_tag(&digest), Some(format!("{name}.sig")));
    assert_eq!(referrers_tag(&digest), name);
    // A tag of this length cannot exist, and the specification cuts the other.
    let long = Digest::parse(&format!("sha512:{}{}", "a".repeat(64), "b".repeat(64))).unwrap();
    assert_eq!(signature_tag(&long), None);
    assert_eq!(referrers_tag(&long), format!("sha512-{}", "a".repeat(64)));
}

#[test]
fn layers_are_found_by_their_type() {
    let bundle = |kind: &str| json!({"mediaType": kind, "digest": ONE, "artifactType": "x"});
    let listed = signatures(&manifest(&[
        simple(1),
        // The type of an image's layer, no signature beside it, no digest that is known, and one
        // that is too long for any key.
        json!({"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": ONE}),
        json!({"mediaType": SIMPLE_SIGNING, "digest": ONE}),
        json!({"mediaType": SIMPLE_SIGNING, "digest": ONE, "annotations": {SIGNATURE: null}}),
        json!({"mediaType": SIMPLE_SIGNING, "digest": "md5:00", "annotations": {SIGNATURE: ""}}),
        json!({"mediaType": SIMPLE_SIGNING, "digest": ONE,
            "annotations": {SIGNATURE: "A".repeat(MAX_SIGNATURE_CHARS + 1)}}),
        json!(["layer"]),
        bundle("application/vnd.dev.sigstore.bundle.v0.3+json"),
        bundle("application/vnd.dev.sigstore.bundle+json;version=0.3"),
        // The same once more.
        simple(1),
    ]))
    .unwrap();
    let digests: Vec<_> = listed.kept.iter().map(|layer| layer.digest.to_string()).collect();
    assert_eq!(digests, [numbered(1), ONE.to_owned()]);
    assert_eq!(listed.left_out, 0);
    let mut kept = listed.kept.into_iter().map(|layer| layer.with(b"content".to_vec()));
    assert!(matches!(
        kept.next(),
        Some(Signature::Simple { payload, signature })
            if payload == b"content" && signature == "AAAA"
    ));
    assert!(matches!(kept.next(), Some(Signature::Bundle(bundle)) if bundle == b"content"));
}

/// skopeo fetches 10,000 of them one after the other.
#[test]
fn of_many_signatures_the_first_and_the_last_are_kept() {
    let layers: Vec<_> = (0..10_000).map(simple).collect();
    let listed = signatures(&manifest(&layers)).unwrap();
    assert_eq!(listed.left_out, 10_000 - MAX_SIGNATURES);
    let kept: Vec<_> = listed.kept.iter().map(|layer| layer.digest.to_string()).collect();
    let want = (0..MAX_SIGNATURES / 2).chain(10_000 - MAX_SIGNATURES / 2..10_000);
    assert_eq!(kept, want.map(numbered).collect::<Vec<_>>());
    let just_so = signatures(&manifest(&layers[..MAX_SIGNATURES])).unwrap();
    assert_eq!((just_so.kept.len(), just_so.left_out), (MAX_SIGNATURES, 0));
}

#[test]
fn of_referrers_only_digests_count() {
    let entry = |number, kind: &str| json!({"digest": numbered(number), "artifactType": kind});
    let empty = "application/vnd.oci.empty.v1+json";
    let text = index(&[
        entry(1, empty),
        json!({"digest": numbered(2), "mediaType": INDEX, "size": -1, "annotations": 1}),
        json!({"digest": "sha384:00"}),
        json!({}),
        entry(1, empty),
        entry(3, "application/spdx+json"),
        entry(4, "application/vnd.dev.cosign.artifact.sig.v1+json"),
    ]);
    let listed = referrers(&text).unwrap();
    let kept: Vec<_> = listed.kept.iter().map(ToString::to_string).collect();
    assert_eq!(kept, [1, 2, 4, 3].map(numbered));
    assert_eq!(listed.left_out, 0);
    // Two hundred reports of scanners do not hide a signature behind them.
    let mut entries: Vec<_> = (10..210).map(|at| entry(at, "application/sarif+json")).collect();
    entries.push(entry(1, "application/vnd.dev.sigstore.bundle.v0.3+json"));
    let listed = referrers(&index(&entries)).unwrap();
    assert_eq!(listed.kept[0].to_string(), numbered(1));
    assert_eq!(listed.kept.len(), MAX_SIGNATURES);
    assert_eq!(listed.left_out, 201 - MAX_SIGNATURES);
    let many: Vec<_> = (0..1000).map(|at| entry(at, empty)).collect();
    let listed = referrers(&index(&many)).unwrap();
    assert_eq!(listed.kept.len(), MAX_SIGNATURES);
    assert_eq!(listed.kept[MAX_SIGNATURES - 1].to_string(), numbered(999));
}

#[test]
fn other_documents_list_nothing() {
    let docker = "application/vnd.docker.distribution.manifest.v2+json";
    let deep = format!("{{\"layers\":[{}{}]}}", "[".repeat(200), "]".repeat(200));
    let wide = format!("{{\"layers\":[{}0]}}", "0,".repeat(MAX_VALUES));
    for (text, why) in [
        (json!({"mediaType": docker, "layers": []}).to_string(), docker),
        (json!({"mediaType": INDEX, "manifests": []}).to_string(), INDEX),
        (json!({"mediaType": 1, "layers": []}).to_string(), "is no OCI manifest but \"\""),
        (json!({"manifests": []}).to_string(), "a document without layers"),
        (json!({"layers": {}}).to_string(), "a document without layers"),
        ("{\"layers\":[],\"layers\":[]}".to_owned(), "\"layers\" is there twice"),
        ("<html>".to_owned(), "cannot be read"),
        ("[]".to_owned(), "cannot be read"),
        (String::new(), "cannot be read"),
        (deep, "cannot be read"),
        (wide, "more than 100000 values"),
        (" ".repeat(MAX_MANIFEST_BYTES + 1), "cannot be read"),
    ] {
        let error = signatures(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(error.len() < 500, "{error}");
    }
    let error = referrers(&manifest(&[])).unwrap_err().to_string();
    assert_eq!(error, format!("is no OCI index but \"{MANIFEST}\""));
    // Neither says what it is, which the specifications allow.
    assert!(signatures(b"{\"layers\":[]}").unwrap().kept.is_empty());
    assert!(referrers(b"{\"manifests\":[]}").unwrap().kept.is_empty());
}
