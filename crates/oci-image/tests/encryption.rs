//! Layers that are encrypted, by their descriptors.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::collections::BTreeMap;

use oci_image::manifest::Manifest;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const PLAIN: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A manifest of one layer of a type, with annotations.
fn image(layer_type: &str, annotations: &str) -> String {
    let config = format!(
        r#"{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{DIGEST}","size":7}}"#
    );
    let layer = format!(r#""mediaType":"{layer_type}","digest":"{DIGEST}","size":7"#);
    let layer = format!(r#"{{{layer},"annotations":{annotations}}}"#);
    format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layer}]}}"#)
}

fn refusal(text: &str) -> String {
    let read = Manifest::parse(text.as_bytes());
    read.expect_err(text).to_string()
}

fn encryption(manifest: &str) -> Option<BTreeMap<String, String>> {
    match Manifest::parse(manifest.as_bytes()) {
        Ok(Manifest::Image { layers, .. }) => layers[0].encryption().cloned(),
        other => panic!("{manifest}: {other:?}"),
    }
}

/// Every type that ocicrypt's tools write for a layer, with what says how to decrypt it.
#[test]
fn encrypted_layers_keep_what_describes_them() {
    for form in ["tar", "tar+gzip", "tar+zstd"] {
        for layer in ["layer", "layer.nondistributable"] {
            let media_type = format!("application/vnd.oci.image.{layer}.v1.{form}+encrypted");
            for nothing in ["{}", "null"] {
                let text = image(&media_type, nothing);
                assert_eq!(encryption(&text), Some(BTreeMap::new()), "{media_type}");
            }
            let text = image(
                &media_type,
                r#"{"org.opencontainers.image.enc.pubopts":"a",
                "org.opencontainers.image.enc.keys.jwe":"b,c",
                "org.opencontainers.image.encoding":"d","e":{"f":1}}"#,
            );
            let described = [
                ("org.opencontainers.image.enc.keys.jwe", "b,c"),
                ("org.opencontainers.image.enc.pubopts", "a"),
            ];
            let described = described.map(|(name, text)| (name.to_owned(), text.to_owned()));
            assert_eq!(encryption(&text), Some(described.into()), "{media_type}");
        }
    }
    for harmless in ["{}", r#"{"org.opencontainers.image.title":"a"}"#] {
        assert_eq!(encryption(&image(PLAIN, harmless)), None);
    }
}

/// A manifest whose layers lost the end of their type: unpacking ciphertext would fail in the end,
/// with words about tar.
#[test]
fn what_is_not_what_its_author_made_is_refused() {
    let encrypted = format!("{PLAIN}+encrypted");
    let pubopts = r#""org.opencontainers.image.enc.pubopts":"a""#;
    for (media_type, annotations, reason) in [
        (PLAIN, format!("{{{pubopts}}}"), "that describe its encryption"),
        (&encrypted, format!("{{{pubopts},{pubopts}}}"), "is there twice"),
        (&encrypted, r#"{"org.opencontainers.image.enc.pubopts":1}"#.to_owned(), "expected"),
        (&encrypted, "[]".to_owned(), "expected"),
    ] {
        let error = refusal(&image(media_type, &annotations));
        assert!(error.contains(reason), "{annotations}: {error}");
    }
}
