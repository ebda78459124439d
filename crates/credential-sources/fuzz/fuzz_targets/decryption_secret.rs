//! Invariant: of any bytes, as file and as value of a secret, every key that is read can be put
//! into any document that is valid, and is in it then, for the images that it is for; a document
//! that has it already stays as it is. The input is both, with a zero byte between.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::decryption_secret::{
    Imported, MAX_VALUES, Source, Values, import, prefix, put_below,
};
use registry_config::Document;

fuzzing::target!(|input: &[u8]| {
    let mut halves = input.splitn(2, |byte| *byte == 0);
    let text = halves.next().unwrap_or_default();
    let document = halves.next().unwrap_or_default();
    let values: Values = [
        ("key".to_owned(), text.to_vec().into()),
        ("key.password".to_owned(), b"test".to_vec().into()),
    ]
    .into();
    let sources =
        [Source::File { name: "file", text }, Source::Mounted { name: "secret", values: &values }];
    for only in ["", "registry.corp/a"] {
        let only: Vec<_> = prefix(only).into_iter().collect();
        added(import(&sources, &only), document, text.len());
    }
});

fn added(imported: Imported, document: &[u8], length: usize) {
    let wanted: usize = imported.keys.iter().map(|key| key.images.len().max(1)).sum();
    assert!(imported.keys.len() <= MAX_VALUES);
    let Ok(before) = Document::parse(document) else {
        assert!(put_below(document, &imported.keys).is_err());
        return;
    };
    let Ok(complete) = put_below(document, &imported.keys) else {
        // Only for want of room, or because the document takes nothing.
        let takes_keys = before.document.node_error.is_none();
        assert!(!takes_keys || document.len() + length * (1 + wanted) > 1 << 14);
        return;
    };
    assert_eq!(complete.document.registries.len(), before.document.registries.len());
    let left_out = complete.findings.len();
    assert_eq!(count(&complete.document) + left_out, count(&before.document) + wanted);
    let again = put_below(&complete.text, &imported.keys).expect("a valid document");
    assert_eq!(again.text, complete.text);
}

fn count(document: &Document) -> usize {
    document.decryption_keys.tables().map(|(_, keys)| keys.len()).sum()
}
