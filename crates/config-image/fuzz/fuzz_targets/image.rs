//! Invariant: any bytes decode to a document that encodes and decodes to itself, or to an error;
//! memory stays bounded.
#![cfg_attr(fuzzing, no_main)]

use config_image::{MAX_DOCUMENT_BYTES, Magic, decode, encode, probe};

fuzzing::target!(|bytes: &[u8]| {
    let Ok(Some(magic)) = probe(bytes) else {
        // Most inputs: make them reach the length and the stream all the same.
        let _ = decode([b"imgpullr", bytes].concat().as_slice(), Magic::IMAGEPULLER);
        return;
    };
    if let Ok(image) = decode(bytes, magic) {
        assert!(image.document.len() <= MAX_DOCUMENT_BYTES);
        assert!(image.gzip_len + 16 <= bytes.len());
        if let Ok(again) = encode(magic, &image.document) {
            let document = decode(again.as_slice(), magic).expect("own images decode").document;
            assert!(document == image.document);
        }
    }
});
