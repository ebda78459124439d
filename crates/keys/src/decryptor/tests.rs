use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreign_text::hex::{decode, encode};
use proptest::prelude::*;

use super::*;
use crate::vector::{CIPHERTEXT, PLAIN, PRIVATE, PUBLIC};
use crate::{LayerKey, PublicOptions};

fn key() -> LayerKey {
    let public = PublicOptions::parse(PUBLIC.as_bytes()).unwrap();
    LayerKey::parse(PRIVATE.as_bytes(), &public).unwrap()
}

/// The key of [`PRIVATE`] with another nonce and HMAC.
fn key_with(nonce: &[u8], hmac: &str) -> LayerKey {
    let hmac = STANDARD.encode(decode(hmac).unwrap());
    let public = PUBLIC.replace("/FYSeZgM86S8NnF228pp1RN/KEfTd6clJwKRdjCsFbQ=", &hmac);
    let private = PRIVATE.replace("8PHy8/T19vf4+fr7/P3+/w==", &STANDARD.encode(nonce));
    let public = PublicOptions::parse(public.as_bytes()).unwrap();
    LayerKey::parse(private.as_bytes(), &public).unwrap()
}

/// Decrypts pieces, through a place of a limited size.
fn decrypt<'a>(
    key: &LayerKey,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    place: usize,
) -> (Vec<u8>, Result<(), Forged>) {
    let mut decryptor = key.decryptor().unwrap();
    let (mut plain, mut buffer) = (Vec::new(), vec![0; place + SLACK_BYTES]);
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = decryptor.update(rest, &mut buffer).unwrap();
            assert_eq!(taken, rest.len().min(place));
            plain.extend_from_slice(&buffer[..taken]);
            rest = &rest[taken..];
        }
    }
    (plain, decryptor.finish())
}

#[test]
fn the_known_answer_comes_out() {
    let (plain, result) = decrypt(&key(), [&decode(CIPHERTEXT).unwrap()[..]], 100);
    assert_eq!((&plain[..], result), (PLAIN, Ok(())));
}

/// 128 bits are counted, not 32 or 64: the second block has the counter 0.
#[test]
fn the_counter_wraps() {
    let key =
        key_with(&[0xff; 16], "a1668e72479d56ca011a493b56c71d9817242ee0f1457675479b38b827a219a3");
    let ciphertext = decode(concat!(
        "e999e41d4ca770da5387117b5d8f57eef29000b62a499fd0a9f39a6add2e7780",
        "f05d76ae4ab99fe5a6f69b3148c2363d",
    ))
    .unwrap();
    let (plain, result) = decrypt(&key, [&ciphertext[..]], 100);
    assert_eq!((&plain[..], result), (&[0; 48][..], Ok(())));
}

#[test]
fn a_layer_may_be_empty() {
    let hmac = "d38b42096d80f45f826b44a9d5607de72496a415d3f4a1a8c88e3bb9da8dc1cb";
    let (_, result) = decrypt(&key_with(&[0; 16], hmac), [], 100);
    assert_eq!(result, Ok(()));
    let (_, result) = decrypt(&key(), [], 100);
    assert_eq!(result, Err(Forged::Hmac));
}

#[test]
fn every_byte_counts() {
    let ciphertext = decode(CIPHERTEXT).unwrap();
    for at in 0..ciphertext.len() {
        let mut changed = ciphertext.clone();
        changed[at] ^= 0x80;
        let (_, result) = decrypt(&key(), [&changed[..]], 100);
        assert_eq!(result, Err(Forged::Hmac), "byte {at}");
        let (_, result) = decrypt(&key(), [&ciphertext[..at]], 100);
        assert_eq!(result, Err(Forged::Hmac), "{at} bytes");
    }
    let longer = [&ciphertext[..], &[0]].concat();
    assert_eq!(decrypt(&key(), [&longer[..]], 100).1, Err(Forged::Hmac));
    let hmac = "fc561279980cf3a4bc367176dbca69d5137f2847d377a7252702917630ac15b4";
    for at in [0, 31] {
        let mut changed = decode(hmac).unwrap();
        changed[at] ^= 1;
        let changed = encode(&changed);
        let key = key_with(&(240..=255).collect::<Vec<u8>>(), &changed);
        assert_eq!(decrypt(&key, [&ciphertext[..]], 100).1, Err(Forged::Hmac));
    }
}

#[test]
fn no_place_takes_no_bytes() {
    let mut decryptor = key().decryptor().unwrap();
    for place in [0, 1, SLACK_BYTES] {
        assert_eq!(decryptor.update(b"abc", &mut vec![0; place]), Ok(0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a stream is cut, the same comes out: one block before the counter wraps, over
    /// several steps.
    #[test]
    fn cuts_make_no_difference(
        cuts in prop::collection::vec(0usize..50_000, 0..20),
        place in prop_oneof![1usize..100, 1_000usize..60_000],
    ) {
        let stream: Vec<u8> = (0..50_000u32).map(|at| (at * 7 + at / 251) as u8).collect();
        let nonce = [&[0xff; 15][..], &[0xf0]].concat();
        let key = key_with(
            &nonce,
            "00ed8c36faedea6f34218c376779dfd2d14dfc947762ce526a8e456fb2444153",
        );
        let mut cuts = cuts;
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
        let (plain, result) = decrypt(&key, pieces, place);
        prop_assert_eq!(plain.len(), stream.len());
        prop_assert_eq!(result, Ok(()));
    }
}
