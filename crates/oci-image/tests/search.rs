//! From a digest to the image, over documents as builders and registries really write them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::collections::BTreeMap;

use oci_image::digest::{Digest, Unverified};
use oci_image::platform::Platform;
use oci_image::search::{Image, Kind, MAX_DOCUMENTS, MAX_INDEX_DEPTH, Search};
use serde_json::{Value, json};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Everything that a registry has, by digest.
#[derive(Default)]
struct Content(BTreeMap<String, Vec<u8>>);

impl Content {
    fn add(&mut self, document: &Value) -> (String, usize) {
        let bytes = serde_json::to_vec(document).unwrap();
        let (digest, bytes) = Unverified::new(bytes).name_by_content();
        let size = bytes.len();
        self.0.insert(digest.to_string(), bytes);
        (digest.to_string(), size)
    }

    fn descriptor(&mut self, media_type: &str, document: &Value) -> Value {
        let (digest, size) = self.add(document);
        json!({"mediaType": media_type, "digest": digest, "size": size})
    }

    /// An image whose configuration has these fields; returns its descriptor.
    fn image(&mut self, name: &str, platform: &Value) -> Value {
        let diff_id = Unverified::new(name.into()).name_by_content().0.to_string();
        let mut config = platform.clone();
        config["author"] = json!(name);
        config["rootfs"] = json!({"type": "layers", "diff_ids": [diff_id]});
        let config = self.descriptor(CONFIG, &config);
        let layer = json!({"mediaType": LAYER, "digest": diff_id, "size": 9});
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        self.descriptor(MANIFEST, &manifest)
    }

    /// An entry for an image of a platform written `os/architecture[/variant]`.
    fn entry(&mut self, platform: &str) -> Value {
        let platform = fields(platform);
        let mut entry = self.image(&platform.to_string(), &platform);
        entry["platform"] = platform;
        entry
    }

    /// What builders add beside each image.
    fn attestation(&mut self, of: &Value) -> Value {
        let mut entry = self.image("attestation", &fields("unknown/unknown"));
        entry["platform"] = fields("unknown/unknown");
        entry["annotations"] = json!({
            "vnd.docker.reference.digest": of["digest"],
            "vnd.docker.reference.type": "attestation-manifest",
        });
        entry
    }

    fn index(&mut self, media_type: &str, entries: &[Value]) -> Value {
        let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": entries});
        self.descriptor(media_type, &index)
    }

    /// Goes the whole way; also says how many documents that took.
    fn search(&self, root: &Value, guest: &str) -> Result<(Image, usize), String> {
        let root = Digest::parse(root["digest"].as_str().unwrap()).unwrap();
        let mut search = Search::new(root, Platform::parse(guest).unwrap());
        for documents in 1.. {
            let wanted = search.wanted();
            let bytes = self.0[&wanted.digest.to_string()].clone();
            let document = wanted.verify(Unverified::new(bytes)).unwrap();
            if let Some(image) = search.receive(document).map_err(|error| error.to_string())? {
                return Ok((image, documents));
            }
        }
        unreachable!()
    }

    fn chosen(&self, root: &Value, guest: &str) -> String {
        self.search(root, guest).unwrap().0.manifest.to_string()
    }
}

fn fields(platform: &str) -> Value {
    let mut parts = platform.split('/');
    let mut fields = json!({"os": parts.next().unwrap(), "architecture": parts.next().unwrap()});
    if let Some(variant) = parts.next() {
        fields["variant"] = json!(variant);
    }
    fields
}

/// An index of these platforms, and who gets which of them.
fn table(media_type: &str, platforms: &[&str], rows: &[(&str, Option<usize>)]) {
    let mut content = Content::default();
    let entries: Vec<_> = platforms.iter().map(|name| content.entry(name)).collect();
    let index = content.index(media_type, &entries);
    for (guest, expected) in rows {
        match (content.search(&index, guest), expected) {
            (Ok((image, documents)), Some(at)) => {
                assert_eq!(image.manifest.to_string(), entries[*at]["digest"], "{guest}");
                assert_eq!(documents, 3, "index, manifest, configuration");
            }
            (Err(error), None) => {
                assert!(error.contains(&format!("has no image for {guest}")), "{error}");
                assert!(error.contains(platforms[0]), "{error}");
            }
            (other, expected) => panic!("{guest}: {expected:?}, but {other:?}"),
        }
    }
}

/// The eight platforms of one of Docker Hub's own images, in their order.
#[test]
fn an_official_image() {
    table(
        LIST,
        &[
            "linux/amd64",
            "linux/arm/v5",
            "linux/arm/v6",
            "linux/arm/v7",
            "linux/arm64/v8",
            "linux/386",
            "linux/ppc64le",
            "linux/s390x",
        ],
        &[
            ("linux/amd64", Some(0)),
            ("linux/amd64/v3", Some(0)),
            ("linux/arm/v5", Some(1)),
            ("linux/arm/v6", Some(2)),
            ("linux/arm/v7", Some(3)),
            ("linux/arm64", Some(4)),
            ("linux/arm64/v9", Some(4)),
            ("linux/386", Some(5)),
            ("linux/ppc64le", Some(6)),
            ("linux/s390x", Some(7)),
            ("linux/riscv64", None),
            ("windows/amd64", None),
        ],
    );
}

#[test]
fn the_nearest_variant_wins_and_the_order_breaks_ties() {
    table(
        INDEX,
        &["linux/arm/v5", "linux/arm/v6"],
        &[
            ("linux/arm/v7", Some(1)),
            ("linux/arm64", Some(1)),
            ("linux/arm/v6", Some(1)),
            ("linux/arm/v5", Some(0)),
            ("linux/amd64", None),
        ],
    );
    table(
        INDEX,
        &["linux/amd64/v2", "linux/amd64/v4", "linux/amd64", "linux/amd64/v3"],
        &[
            ("linux/amd64", Some(2)),
            ("linux/amd64/v2", Some(0)),
            ("linux/amd64/v3", Some(3)),
            ("linux/amd64/v4", Some(1)),
        ],
    );
    // Built for newer processors only.
    table(INDEX, &["linux/amd64/v3"], &[("linux/amd64/v2", None)]);
    // The 32-bit image of the same processor, after everything else.
    table(INDEX, &["linux/386"], &[("linux/amd64", Some(0))]);
    table(
        INDEX,
        &["linux/386", "windows/amd64", "linux/x86_64/v1", "linux/amd64"],
        &[("linux/amd64", Some(2))],
    );
    let mut content = Content::default();
    let entries = [
        content.image("one", &fields("linux/amd64")),
        content.image("two", &fields("linux/amd64")),
    ];
    let entries = entries.map(|mut entry| {
        entry["platform"] = fields("linux/amd64");
        entry
    });
    let index = content.index(INDEX, &entries);
    assert_eq!(content.chosen(&index, "linux/amd64"), entries[0]["digest"]);
}

/// What buildx pushes: images and, for each, an attestation for a platform that does not exist.
#[test]
fn attestations_are_no_images() {
    let mut content = Content::default();
    let (amd64, arm64) = (content.entry("linux/amd64"), content.entry("linux/arm64"));
    let attestations = [content.attestation(&amd64), content.attestation(&arm64)];
    let [first, second] = attestations.clone();
    let index = content.index(INDEX, &[amd64.clone(), arm64.clone(), first, second]);
    assert_eq!(content.chosen(&index, "linux/amd64"), amd64["digest"]);
    assert_eq!(content.chosen(&index, "linux/arm64"), arm64["digest"]);
    let error = content.search(&index, "linux/s390x").unwrap_err();
    assert!(error.ends_with("only for: linux/amd64, linux/arm64"), "{error}");

    // Neither sign of an attestation needs the other, and none is chosen for want of anything
    // better.
    let mut annotated = attestations[0].clone();
    annotated["platform"] = fields("linux/amd64");
    let mut unnamed = attestations[0].clone();
    unnamed.as_object_mut().unwrap().remove("platform");
    let mut artifact = content.image("artifact", &fields("linux/amd64"));
    artifact["artifactType"] = json!("application/vnd.in-toto+json");
    let mut unknown = content.image("unknown", &fields("linux/amd64"));
    unknown["mediaType"] = json!("application/vnd.example+json");
    let nothing = [
        attestations[1].clone(),
        annotated,
        unnamed,
        artifact,
        unknown,
        content.entry("unknown/unknown"),
        content.entry("linux/unknown"),
    ];
    let index = content.index(INDEX, &nothing);
    let error = content.search(&index, "linux/amd64").unwrap_err();
    assert!(error.contains("has no image for linux/amd64, and lists no other"), "{error}");
}

#[test]
fn features_of_an_operating_system_are_not_assumed() {
    let mut content = Content::default();
    let mut special = content.entry("linux/amd64");
    special["platform"]["os.features"] = json!(["erofs"]);
    let mut plain = content.image("plain", &fields("linux/amd64"));
    plain["platform"] = json!({"os": "linux", "architecture": "amd64", "os.version": "6.12"});
    let index = content.index(INDEX, &[special, plain.clone()]);
    assert_eq!(content.chosen(&index, "linux/amd64"), plain["digest"]);
}

/// Hand-made indexes without platforms: only the configurations know.
#[test]
fn where_the_index_is_silent_the_configurations_decide() {
    let mut content = Content::default();
    let arm64 = content.image("arm64", &fields("linux/arm64"));
    let silent = content.image("silent", &json!({"os": "linux"}));
    let helm = "application/vnd.cncf.helm.config.v1+json";
    let helm = json!({"mediaType": helm, "digest": arm64["digest"], "size": 1});
    let chart = json!({"schemaVersion": 2, "config": helm, "layers": []});
    let chart = content.descriptor(MANIFEST, &chart);
    let mut empty = content.image("amd64", &fields("linux/amd64"));
    empty["platform"] = json!({"os": "", "architecture": ""});
    let mut untyped = content.image("s390x", &fields("linux/s390x"));
    untyped.as_object_mut().unwrap().remove("mediaType");
    let entries = [arm64.clone(), silent, chart, empty.clone(), untyped.clone()];
    let index = content.index(INDEX, &entries);
    assert_eq!(content.chosen(&index, "linux/arm64"), arm64["digest"]);
    assert_eq!(content.chosen(&index, "linux/amd64"), empty["digest"]);
    assert_eq!(content.chosen(&index, "linux/s390x"), untyped["digest"]);
    let error = content.search(&index, "linux/riscv64").unwrap_err();
    for offered in ["linux/arm64, linux/any, a Helm chart", "linux/amd64, linux/s390x"] {
        assert!(error.contains(offered), "{error}");
    }

    // An entry that names the platform comes before one that names none, wherever it stands.
    let named = content.entry("linux/386");
    let index = content.index(INDEX, &[empty, named.clone()]);
    assert_eq!(content.chosen(&index, "linux/amd64"), named["digest"]);
}

#[test]
fn a_promise_that_the_configuration_does_not_keep_is_refused() {
    let mut content = Content::default();
    let mut wrong = content.image("wrong", &fields("linux/arm64"));
    wrong["platform"] = fields("linux/amd64");
    let right = content.entry("linux/amd64");
    let index = content.index(INDEX, &[wrong.clone(), right]);
    for root in [&index, &wrong] {
        let error = content.search(root, "linux/amd64").unwrap_err();
        assert!(
            error.contains("says that the image is for linux/arm64, and this guest is linux/amd64"),
            "{error}"
        );
    }
    // A configuration that says nothing keeps every promise.
    let silent = content.image("silent", &json!({}));
    assert_eq!(content.chosen(&silent, "linux/amd64"), silent["digest"]);
}

/// What somebody asked for by name is not looked for elsewhere, and the reason says what it is.
#[test]
fn an_artifact_that_was_asked_for_is_named() {
    let mut content = Content::default();
    let blob = content.descriptor("application/vnd.cncf.helm.config.v1+json", &json!({}));
    let chart = json!({"schemaVersion": 2, "config": blob, "layers": []});
    let mut chart = content.descriptor(MANIFEST, &chart);
    let error = content.search(&chart, "linux/amd64").unwrap_err();
    assert!(error.starts_with("the manifest sha256:"), "{error}");
    assert!(error.contains("is a Helm chart"), "{error}");
    chart["platform"] = fields("linux/amd64");
    let inner = content.index(INDEX, &[chart]);
    let image = content.image("image", &fields("linux/amd64"));
    let index = content.index(INDEX, &[inner, image]);
    let error = content.search(&index, "linux/amd64").unwrap_err();
    assert!(error.contains("is a Helm chart"), "{error}");
}

#[test]
fn indexes_in_indexes() {
    let mut content = Content::default();
    let amd64 = content.entry("linux/amd64");
    let mut inner = content.index(INDEX, std::slice::from_ref(&amd64));
    for depth in 2..=MAX_INDEX_DEPTH + 1 {
        inner = content.index(INDEX, &[inner]);
        match content.search(&inner, "linux/amd64") {
            Ok((image, documents)) => {
                assert!(depth <= MAX_INDEX_DEPTH);
                assert_eq!(image.manifest.to_string(), amd64["digest"]);
                assert_eq!(documents, depth + 2);
            }
            Err(error) => {
                assert!(depth > MAX_INDEX_DEPTH, "{error}");
                assert!(error.contains("is nested more than 4 levels deep"), "{error}");
            }
        }
    }
    // One index for each platform, in an index that does not say so: the first has no image for
    // this guest.
    let (arm, arm64) = (content.entry("linux/arm/v7"), content.entry("linux/arm64"));
    let left = content.index(INDEX, std::slice::from_ref(&arm));
    let right = content.index(LIST, std::slice::from_ref(&arm64));
    let both = content.index(INDEX, &[left.clone(), right]);
    assert_eq!(content.chosen(&both, "linux/arm64"), arm["digest"]);
    let amd64_only = content.index(INDEX, &[amd64]);
    let right = content.index(LIST, std::slice::from_ref(&arm64));
    let both = content.index(INDEX, &[amd64_only, right.clone()]);
    let (image, _) = content.search(&both, "linux/arm64").unwrap();
    assert_eq!(image.manifest.to_string(), arm64["digest"]);
    // The index that was looked at in vain did not lead to it.
    let way = image.contents.iter().map(|digest| json!(digest.to_string()));
    assert!(way.eq([&both, &right, &arm64].map(|one| one["digest"].clone())));
    let error = content.search(&both, "linux/s390x").unwrap_err();
    assert!(error.contains("only for: linux/amd64, linux/arm64"), "{error}");
    assert!(error.contains(both["digest"].as_str().unwrap()), "{error}");
}

/// CVE-2021-41190 one level up: what an entry calls a manifest must not be an index to whoever
/// reads the bytes.
#[test]
fn an_entry_and_its_document_agree_on_what_it_is() {
    let mut content = Content::default();
    let mut image = content.entry("linux/amd64");
    image["mediaType"] = json!(INDEX);
    let index = content.index(INDEX, &[image]);
    let error = content.search(&index, "linux/amd64").unwrap_err();
    assert!(error.contains("is listed as") && error.contains("something else"), "{error}");
    let inner = content.entry("linux/amd64");
    let mut inner = content.index(INDEX, &[inner]);
    inner["mediaType"] = json!(MANIFEST);
    inner["platform"] = fields("linux/amd64");
    let index = content.index(INDEX, &[inner]);
    let error = content.search(&index, "linux/amd64").unwrap_err();
    assert!(error.contains("is listed as"), "{error}");
}

/// A broken document ends the search, though another entry would do: what is chosen must not depend
/// on what is broken.
#[test]
fn nothing_broken_is_passed_over() {
    let mut content = Content::default();
    let good = content.image("good", &fields("linux/amd64"));
    let broken = content.descriptor(MANIFEST, &json!({"schemaVersion": 1}));
    let index = content.index(INDEX, &[broken, good]);
    let error = content.search(&index, "linux/amd64").unwrap_err();
    assert!(error.contains("schema version 1"), "{error}");
}

#[test]
fn a_search_ends() {
    let mut content = Content::default();
    let entry = content.image("other", &fields("linux/arm64"));
    let index = content.index(INDEX, &vec![entry; 1000]);
    let error = content.search(&index, "linux/amd64").unwrap_err();
    let expected = format!("leads to more than {MAX_DOCUMENTS} documents");
    assert!(error.contains(&expected), "{error}");

    // A document that is not the wanted one leads nowhere either.
    let root = Digest::parse(index["digest"].as_str().unwrap()).unwrap();
    let mut search = Search::new(root.clone(), Platform::parse("linux/amd64").unwrap());
    let mut other = search.wanted();
    other.digest =
        Digest::parse(content.image("x", &json!({}))["digest"].as_str().unwrap()).unwrap();
    let bytes = content.0[&other.digest.to_string()].clone();
    for _ in 0..MAX_DOCUMENTS {
        let document = other.verify(Unverified::new(bytes.clone())).unwrap();
        assert!(search.receive(document).unwrap().is_none());
        assert_eq!(search.wanted().digest, root);
    }
    let document = other.verify(Unverified::new(bytes)).unwrap();
    assert!(search.receive(document).is_err());
}

#[test]
fn sizes_and_digests_come_from_the_document_above() {
    let mut content = Content::default();
    let entry = content.entry("linux/amd64");
    let index = content.index(INDEX, std::slice::from_ref(&entry));
    let root = Digest::parse(index["digest"].as_str().unwrap()).unwrap();
    let mut search = Search::new(root, Platform::parse("linux/amd64").unwrap());
    let sizes = [None, entry["size"].as_u64(), None];
    for (at, kind) in [Kind::Manifest, Kind::Manifest, Kind::Config].into_iter().enumerate() {
        let wanted = search.wanted();
        assert_eq!(wanted.kind, kind);
        if at < 2 {
            assert_eq!(wanted.size, sizes[at]);
        } else {
            assert!(wanted.size.is_some());
        }
        let bytes = content.0[&wanted.digest.to_string()].clone();
        let mut longer = bytes.clone();
        longer.push(b' ');
        assert!(wanted.verify(Unverified::new(longer)).is_err());
        let document = wanted.verify(Unverified::new(bytes.clone())).unwrap();
        if let Some(image) = search.receive(document).unwrap() {
            assert_eq!(image.configuration, bytes);
            assert_eq!(image.layers.len(), 1);
            assert_eq!(image.layers[0].0.size, 9);
            return;
        }
    }
    panic!("no image");
}

/// A descriptor whose size is wrong is found out, though the digest holds.
#[test]
fn a_wrong_size_is_a_mismatch() {
    let mut content = Content::default();
    let mut entry = content.entry("linux/amd64");
    entry["size"] = json!(entry["size"].as_u64().unwrap() + 1);
    let index = content.index(INDEX, &[entry]);
    let root = Digest::parse(index["digest"].as_str().unwrap()).unwrap();
    let mut search = Search::new(root, Platform::parse("linux/amd64").unwrap());
    let bytes = |digest: &Digest| Unverified::new(content.0[&digest.to_string()].clone());
    let wanted = search.wanted();
    let document = wanted.verify(bytes(&wanted.digest)).unwrap();
    assert!(search.receive(document).unwrap().is_none());
    let wanted = search.wanted();
    assert!(wanted.verify(bytes(&wanted.digest)).is_err());
}
