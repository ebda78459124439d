//! Manifests, indexes and configurations: what is an image, and the reason for everything that is
//! none.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use oci_image::config::ImageConfig;
use oci_image::manifest::{
    InvalidDocument, MAX_CONFIG_BYTES, MAX_INDEX_ENTRIES, MAX_LAYER_BYTES, MAX_LAYERS,
    MAX_MANIFEST_BYTES, Manifest,
};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const SCHEMA_2: &str = "application/vnd.docker.distribution.manifest.v2+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn descriptor(media_type: &str) -> String {
    format!(r#"{{"mediaType":"{media_type}","digest":"{DIGEST}","size":7}}"#)
}

/// A manifest with more fields (each with its comma), of one layer.
fn image(fields: &str, config: &str, layer: &str) -> String {
    let (config, layer) = (descriptor(config), descriptor(layer));
    format!(r#"{{"schemaVersion":2,{fields}"config":{config},"layers":[{layer}]}}"#)
}

fn index(fields: &str, entries: &str) -> String {
    format!(r#"{{"schemaVersion":2,{fields}"manifests":[{entries}]}}"#)
}

fn typed(media_type: &str) -> String {
    format!(r#""mediaType":"{media_type}","#)
}

fn refusal(text: &str) -> String {
    Manifest::parse(text.as_bytes()).expect_err(text).to_string()
}

#[test]
fn images_of_every_kind_are_read() {
    for layer in [
        "application/vnd.oci.image.layer.v1.tar",
        LAYER,
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    ] {
        for (fields, config) in [
            (String::new(), CONFIG),
            (typed(MANIFEST), CONFIG),
            (typed(SCHEMA_2), DOCKER_CONFIG),
            // Converted by a registry or a tool without its parts.
            (typed(MANIFEST), DOCKER_CONFIG),
            (r#""artifactType":"","manifests":null,"#.to_owned(), CONFIG),
            (format!(r#""artifactType":"{CONFIG}","#), CONFIG),
            (format!(r#""subject":{},"#, descriptor(MANIFEST)), CONFIG),
            (r#""annotations":{"Size":"1","layers":"x"},"#.to_owned(), CONFIG),
        ] {
            let text = image(&fields, config, layer);
            match Manifest::parse(text.as_bytes()) {
                Ok(Manifest::Image { config, layers }) => {
                    assert_eq!((config.size, layers.len(), layers[0].size), (7, 1, 7));
                    assert_eq!(layers[0].digest.to_string(), DIGEST);
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_foreign_layer_is_the_registrys_wherever_its_addresses_point() {
    let foreign = descriptor("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip");
    let with_address =
        foreign.replace("\"size\":7", r#""size":7,"urls":["http://169.254.169.254/latest"]"#);
    let text = image("", CONFIG, LAYER).replace(&descriptor(LAYER), &with_address);
    let read = Manifest::parse(text.as_bytes()).unwrap();
    assert!(!format!("{read:?}").contains("169.254"), "{read:?}");
}

#[test]
fn sha512_pins_as_well() {
    let long = format!("sha512:{}", "0123456789abcdef".repeat(8));
    let text = image("", CONFIG, LAYER).replace(DIGEST, &long);
    assert!(Manifest::parse(text.as_bytes()).is_ok());
}

#[test]
fn indexes_are_read() {
    let entry = descriptor(MANIFEST);
    for text in [
        index("", &entry),
        index(&typed(INDEX), &entry),
        index(&typed(LIST), &entry),
        index(r#""config":null,"layers":null,"#, &entry),
        index("", ""),
        index("", &entry.replace(&typed(MANIFEST), "")),
    ] {
        assert!(matches!(Manifest::parse(text.as_bytes()), Ok(Manifest::Index(_))), "{text}");
    }
}

#[test]
fn what_holds_no_image_is_refused_with_a_reason() {
    let config = typed("application/vnd.docker.distribution.manifest.v1+json");
    let one = image("", CONFIG, LAYER);
    for (text, reason) in [
        (r#"{"schemaVersion":1,"name":"a","fsLayers":[]}"#.to_owned(), "schema version 1"),
        (
            r#"{"schemaVersion":2,"fsLayers":[{"blobSum":"x"}],"history":[]}"#.to_owned(),
            "schema version 1",
        ),
        (image(&config, CONFIG, LAYER), "schema version 1"),
        (one.replace(":2,", ":3,"), "schema version 3"),
        (one.replace("\"schemaVersion\":2,", ""), "cannot be read"),
        ("[]".to_owned(), "cannot be read"),
        (String::new(), "cannot be read"),
        ("null".to_owned(), "cannot be read"),
        ("<html>".to_owned(), "cannot be read"),
        (r#"{"schemaVersion":2}"#.to_owned(), "neither a manifest nor an index"),
        (
            format!(r#"{{"schemaVersion":2,"layers":[{}]}}"#, descriptor(LAYER)),
            "neither a manifest nor an index",
        ),
        (
            format!(r#"{{"schemaVersion":2,"config":{}}}"#, descriptor(CONFIG)),
            "neither a manifest nor an index",
        ),
        (r#"{"schemaVersion":2,"mediaType":"example/x","blobs":[]}"#.to_owned(), "\"example/x\""),
        (image("", "application/vnd.cncf.helm.config.v1+json", LAYER), "is a Helm chart"),
        (image("", "application/vnd.wasm.config.v0+json", LAYER), "is a WebAssembly module"),
        (image("", "application/vnd.docker.plugin.v1+json", LAYER), "is a Docker plugin"),
        (image("", "application/vnd.unknown.config.v1+json", LAYER), "pushed with ORAS"),
        (
            image("", "application/vnd.oci.empty.v1+json", LAYER),
            "is an artifact without a configuration",
        ),
        (image("", "", LAYER), "does not say of which type"),
        (image("", "application/x", LAYER), "is an artifact of type \"application/x\""),
        (
            image("\"artifactType\":\"example/x\",", CONFIG, LAYER),
            "is an artifact of type \"example/x\"",
        ),
        (
            index("\"artifactType\":\"example/x\",", &descriptor(MANIFEST)),
            "is an artifact of type \"example/x\"",
        ),
        (image("", CONFIG, "application/vnd.dev.cosign.simplesigning.v1+json"), "is a signature"),
        (image("", CONFIG, "application/vnd.in-toto+json"), "is a build attestation"),
        (
            image("", CONFIG, "application/vnd.docker.image.rootfs.diff.tar.gzip+encrypted"),
            "of unknown type",
        ),
        (
            image("", CONFIG, "application/vnd.oci.image.layer.v1.tar+encrypted+gzip"),
            "of unknown type",
        ),
        (
            image("", CONFIG, "application/vnd.oci.image.layer.v1.tar+gzip+encrypted+encrypted"),
            "of unknown type",
        ),
        (image("", CONFIG, "+encrypted"), "of unknown type"),
        (image("", CONFIG, "application/x-unknown"), "of unknown type \"application/x-unknown\""),
        (image("", CONFIG, ""), "of unknown type \"\""),
        (image("", CONFIG, "application/vnd.oci.image.layer.v1.tar+br"), "of unknown type"),
    ] {
        let error = refusal(&text);
        assert!(error.contains(reason), "{text}: {error}");
    }
}

/// CVE-2021-41190: a document that is a manifest to one program and an index to another has two
/// meanings under one digest.
#[test]
fn a_document_with_two_meanings_is_refused() {
    let (entry, one) = (descriptor(MANIFEST), image("", CONFIG, LAYER));
    let both = |field: &str| one.replacen("{\"schema", &format!("{{{field},\"schema"), 1);
    for (text, reason) in [
        (both(&format!(r#""manifests":[{entry}]"#)), "at once"),
        (both(r#""manifests":[]"#), "at once"),
        (index(&format!(r#""config":{},"#, descriptor(CONFIG)), &entry), "at once"),
        (index(r#""layers":[],"#, &entry), "at once"),
        (image(&typed(INDEX), CONFIG, LAYER), "has the parts of a manifest"),
        (image(&typed(LIST), CONFIG, LAYER), "has the parts of a manifest"),
        (image(&typed(CONFIG), CONFIG, LAYER), "has the parts of a manifest"),
        (index(&typed(MANIFEST), &entry), "has the parts of an index"),
        (index(&typed(SCHEMA_2), &entry), "has the parts of an index"),
        (both(r#""fsLayers":[]"#), "schema version 1"),
        // The same trick against parsers that take the last of two equal names, or do not mind
        // their case.
        (both(&format!(r#""layers":[{}]"#, descriptor(LAYER))), "\"layers\" is there twice"),
        (both(r#""schemaVersion":2"#), "is there twice"),
        (both(&format!(r#""Manifests":[{entry}]"#)), "in case only"),
        (both(r#""Layers":[]"#), "in case only"),
        (both(r#""layer\u017f":[]"#), "in case only"),
        (both(r#""MediaType":"x""#), "in case only"),
        (
            one.replacen("\"size\":7", &format!(r#""size":7,"Digest":"{DIGEST}""#), 1),
            "in case only",
        ),
        (one.replacen("\"size\":7", r#""size":7,"size":8"#, 1), "\"size\" is there twice"),
        (index("", &entry.replacen('{', r#"{"platform":{"OS":"linux"},"#, 1)), "in case only"),
        (both(r#""annotations":{"a":"1","a":"2"}"#), "\"a\" is there twice"),
    ] {
        let error = refusal(&text);
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn digests_and_sizes_are_what_they_must_be() {
    let one = image("", CONFIG, LAYER);
    let sized = |size: &str| one.replace("\"size\":7", &format!("\"size\":{size}"));
    for text in [
        one.replace(DIGEST, "sha256:../../etc"),
        one.replace(DIGEST, "md5:0123456789abcdef0123456789abcdef"),
        one.replace(DIGEST, &DIGEST.to_uppercase()),
        one.replace(DIGEST, &DIGEST[..60]),
        one.replace(&format!(r#""digest":"{DIGEST}","#), ""),
        sized("-7"),
        sized("7.0"),
        sized("7e3"),
        sized("18446744073709551616"),
        sized("\"7\""),
        sized("null"),
        one.replace(",\"size\":7", ""),
    ] {
        let error = refusal(&text);
        assert!(error.contains("cannot be read"), "{text}: {error}");
        assert!(error.len() < 500, "{error}");
    }
}

#[test]
fn limits_hold_to_the_byte() {
    let layers = |count: usize| {
        let layers = vec![descriptor(LAYER); count].join(",");
        let config = descriptor(CONFIG);
        format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layers}]}}"#)
    };
    for count in [0, MAX_LAYERS] {
        assert!(Manifest::parse(layers(count).as_bytes()).is_ok(), "{count}");
    }
    assert_eq!(MAX_LAYERS, 500);
    let error = refusal(&layers(MAX_LAYERS + 1));
    assert!(error.contains("has 501 layers, more than 500"), "{error}");

    let entries = |count: usize| index("", &vec![descriptor(MANIFEST); count].join(","));
    assert!(Manifest::parse(entries(MAX_INDEX_ENTRIES).as_bytes()).is_ok());
    let error = refusal(&entries(MAX_INDEX_ENTRIES + 1));
    assert!(error.contains("lists 1025 images"), "{error}");

    let one = image("", CONFIG, LAYER);
    let layer = |size: u64| {
        let (head, tail) = one.rsplit_once("\"size\":7").unwrap();
        format!("{head}\"size\":{size}{tail}")
    };
    assert!(Manifest::parse(layer(MAX_LAYER_BYTES).as_bytes()).is_ok());
    let error = refusal(&layer(MAX_LAYER_BYTES + 1));
    assert!(error.contains("has a layer sha256:"), "{error}");

    let config = |size: usize| one.replacen("\"size\":7", &format!("\"size\":{size}"), 1);
    assert!(Manifest::parse(config(MAX_CONFIG_BYTES).as_bytes()).is_ok());
    let error = refusal(&config(MAX_CONFIG_BYTES + 1));
    assert!(error.contains("has a configuration of 4194305 bytes"), "{error}");

    let padded = |length: usize| format!("{one}{}", " ".repeat(length - one.len()));
    assert!(Manifest::parse(padded(MAX_MANIFEST_BYTES).as_bytes()).is_ok());
    let error = refusal(&padded(MAX_MANIFEST_BYTES + 1));
    assert!(error.contains("has 4194305 bytes"), "{error}");
}

#[test]
fn a_message_is_short_whatever_the_document_says() {
    let long = "x".repeat(1 << 20);
    for text in [
        image("", &long, LAYER),
        image("", CONFIG, &long),
        image(&typed(&long), CONFIG, LAYER),
        image(&format!(r#""artifactType":"{long}","#), CONFIG, LAYER),
        image("", CONFIG, LAYER).replace(DIGEST, &long),
        image("", CONFIG, LAYER).replace("\"size\":7", &format!("\"size\":\"{long}\"")),
        image(&format!(r#""{long}":1,"{long}":2,"#), CONFIG, LAYER),
    ] {
        let error = refusal(&text);
        assert!(error.len() < 500, "{} bytes: {:.200}", error.len(), error);
    }
}

fn config(fields: &str, kind: &str, diff_ids: &[&str]) -> String {
    let diff_ids: Vec<_> = diff_ids.iter().map(|id| format!("{id:?}")).collect();
    let diff_ids = diff_ids.join(",");
    format!(r#"{{{fields}"rootfs":{{"type":"{kind}","diff_ids":[{diff_ids}]}}}}"#)
}

#[test]
fn configurations_are_read() {
    let fields = r#""created":"2026-01-01T00:00:00Z","os":"linux","architecture":"arm64",
        "variant":"v8","history":[{"empty_layer":true}],
        "config":{"Env":["A=b"],"Labels":{"OS":"x","os":"y","type":"z"},"Architecture":"q"},"#;
    let read =
        ImageConfig::parse(config(fields, "layers", &[DIGEST, DIGEST]).as_bytes(), 2).unwrap();
    assert_eq!(read.platform.to_string(), "linux/arm64");
    assert_eq!(read.diff_ids.len(), 2);
    assert_eq!(read.diff_ids[0].to_string(), DIGEST);
    let silent = ImageConfig::parse(config("", "layers", &[DIGEST]).as_bytes(), 1).unwrap();
    assert_eq!(silent.platform.to_string(), "any/any");
}

#[test]
fn a_configuration_must_fit_its_manifest() {
    let good = config("", "layers", &[DIGEST]);
    for (text, reason) in [
        (good.clone(), ""),
        (config("", "layers", &[]), "names 0 layers, and the manifest 1"),
        (config("", "layers", &[DIGEST, DIGEST]), "names 2 layers, and the manifest 1"),
        (config("", "tables", &[DIGEST]), "of type \"tables\""),
        ("{}".to_owned(), "cannot be read"),
        (good.replace("diff_ids", "diffs"), "cannot be read"),
        (good.replace("diff_ids", "DIFF_IDS"), "in case only"),
        (good.replace(DIGEST, "sha256:x"), "cannot be read"),
        (config("\"os\":\"linux\",\"os\":\"linux\",", "layers", &[DIGEST]), "is there twice"),
        (config("\"Rootfs\":{},", "layers", &[DIGEST]), "in case only"),
        (config("\"rootf\\u017f\":{},", "layers", &[DIGEST]), "in case only"),
        (format!("{good}{}", " ".repeat(MAX_CONFIG_BYTES + 1 - good.len())), "has 4194305 bytes"),
    ] {
        match ImageConfig::parse(text.as_bytes(), 1) {
            Ok(_) => assert_eq!(reason, "", "{text}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!reason.is_empty() && error.contains(reason), "{text:.200}: {error}");
            }
        }
    }
    assert!(matches!(ImageConfig::parse(b"[]", 1), Err(InvalidDocument::Unreadable(_))));
}
