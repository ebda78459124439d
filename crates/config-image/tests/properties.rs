//! What must hold for every input.

use config_image::{Magic, decode, encode, probe};
use proptest::prelude::*;

proptest! {
    #[test]
    fn decode_inverts_encode(document: Vec<u8>, magic in "[!-~]{8}") {
        let magic = Magic::new(magic.as_bytes().try_into().unwrap()).unwrap();
        let image = encode(magic, &document).unwrap();
        prop_assert_eq!(image.len() % 512, 0);
        prop_assert_eq!(probe(image.as_slice()).unwrap(), Some(magic));
        let decoded = decode(image.as_slice(), magic).unwrap();
        prop_assert_eq!(decoded.document.as_slice(), document.as_slice());
        prop_assert_eq!(decoded.image_len(), image.len());
    }

    #[test]
    fn one_flipped_byte_of_the_stream_never_gives_another_document(
        document in prop::collection::vec(any::<u8>(), 1..2000),
        position: prop::sample::Index,
        flip in 1..=255_u8,
    ) {
        let mut image = encode(Magic::IMAGEPULLER, &document).unwrap();
        let end = 16 + decode(image.as_slice(), Magic::IMAGEPULLER).unwrap().gzip_len;
        // Bytes 4 to 9 of a gzip header (time, flags of the compressor, OS) carry no document.
        let at = 16 + position.index(end - 16);
        prop_assume!(!(20..26).contains(&at));
        image[at] ^= flip;
        if let Ok(decoded) = decode(image.as_slice(), Magic::IMAGEPULLER) {
            prop_assert_eq!(decoded.document.as_slice(), document.as_slice());
        }
    }
}
