//! Invariant: any bytes are a document whose literal names match themselves, or problems on lines
//! that exist, in plain text; it is read back as it is written; what the host may say, the guest's
//! owner may say too, but for why the node has no document, which a node says in exactly these words
//! again.
#![cfg_attr(fuzzing, no_main)]

use oci_image::pins::Pins;
use registry_config::{Checked, Document, Match, Problems, RegistryName};

fuzzing::target!(|bytes: &[u8]| {
    let measured = check(bytes, Document::parse_measured);
    if let Some(Err(problems)) = measured.as_ref().map(|owners| Pins::read(&owners.pins)) {
        refused(bytes, &problems);
    }
    let Some(unmeasured) = check(bytes, Document::parse) else {
        return;
    };
    assert_eq!(measured.is_some(), unmeasured.node_error.is_none());
    if let Some(reason) = unmeasured.node_error {
        assert!(!reason.to_string().contains(char::is_control));
        let again = Document::parse(reason.to_document().as_bytes()).expect("a document");
        assert_eq!(again.document.node_error, Some(reason));
    }
});

/// Why bytes are no document.
fn refused(bytes: &[u8], problems: &Problems) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(problems.iter().count() > 0);
    for problem in problems.iter() {
        assert!(problem.line <= lines);
        assert!(!problem.to_string().contains(char::is_control));
    }
}

/// The document, if the bytes are one.
fn check(bytes: &[u8], read: fn(&[u8]) -> Result<Checked, Problems>) -> Option<Document> {
    let checked = match read(bytes) {
        Ok(checked) => checked,
        Err(problems) => {
            refused(bytes, &problems);
            return None;
        }
    };
    assert!(checked.warnings.iter().all(|warning| !warning.to_string().contains(char::is_control)));
    let registries = &checked.document.registries;
    for (name, _) in registries.iter() {
        let shown = name.to_string();
        assert_eq!(RegistryName::parse(&shown).as_ref(), Ok(name));
        let host = name.host();
        assert_eq!(host.is_some(), name.is_literal());
        if let (Some(host), Some(repositories)) = (&host, name.repositories()) {
            let below = format!("{repositories}/app");
            for repository in [repositories, &below] {
                let mut found = registries.repository_entries(host, repository);
                assert!(found.any(|(found, _)| found == name));
            }
        } else if let Some(host) = host {
            // The same name with the port that this one implies is more specific.
            assert!(matches!(registries.entry_for(&host), Match::Entry { literal: true, .. }));
            assert!(registries.literal_entry_for(&host).is_some());
        }
    }
    // Escapes and certificates may need more bytes than a document may have.
    if let Ok(written) = checked.document.to_toml() {
        let again = read(written.as_bytes()).expect("a document").document;
        assert_eq!(again.redacted(), checked.document.redacted());
        assert_eq!(again.to_toml().as_ref(), Ok(&written));
    }
    Some(checked.document)
}
