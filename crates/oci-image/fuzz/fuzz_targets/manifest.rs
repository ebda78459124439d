//! Invariant: any bytes are a document within its limits or an error of few words, and what is
//! chosen is something that the index lists.
#![cfg_attr(fuzzing, no_main)]

use oci_image::config::ImageConfig;
use oci_image::digest::Unverified;
use oci_image::manifest::{InvalidDocument, MAX_INDEX_ENTRIES, MAX_LAYERS, Manifest};
use oci_image::platform::Platform;
use oci_image::search::Search;

fn guest() -> Platform {
    Platform::parse("linux/amd64/v3").unwrap()
}

fn check(error: InvalidDocument) {
    let text = error.to_string();
    assert!(text.len() < 2000, "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

fuzzing::target!(|bytes: &[u8]| {
    let mut listed = Vec::new();
    match Manifest::parse(bytes) {
        Ok(Manifest::Image { config, layers }) => {
            assert!((1..=MAX_LAYERS).contains(&layers.len()));
            listed.push(config.digest);
        }
        Ok(Manifest::Index(entries)) => {
            assert!(entries.len() <= MAX_INDEX_ENTRIES);
            listed.extend(entries.into_iter().map(|entry| entry.digest));
        }
        Err(error) => check(error),
    }
    match ImageConfig::parse(bytes, 2) {
        Ok(config) => assert_eq!(config.diff_ids.len(), 2),
        Err(error) => check(error),
    }
    let (digest, bytes) = Unverified::new(bytes.to_vec()).name_by_content();
    let mut search = Search::new(digest, guest());
    let document = search.wanted().verify(Unverified::new(bytes)).unwrap();
    match search.receive(document) {
        Ok(image) => {
            assert!(image.is_none());
            assert!(listed.contains(&search.wanted().digest));
        }
        Err(error) => check(error.rule),
    }
});
