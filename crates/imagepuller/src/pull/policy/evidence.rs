//! Signatures on their way to a judgement, and those that are kept.

use std::collections::HashSet;
use std::slice;

use image_policy::kept::{self, Placed};
use image_policy::places::{MAX_PLACE_BYTES, MAX_SIGNATURES};
use layer_store::limits::MAX_SIGNATURES_BYTES;

/// What one source has, as far as it is looked at, and how many more there are: as much as two
/// places of two contents may have, the manifest and the index above it. What is above that, of
/// indexes in indexes, is left out.
pub fn of_source(found: &[Placed]) -> (Vec<Placed>, usize) {
    let bytes = |placed: &Placed| placed.1.content_bytes();
    bounded(found, 4 * MAX_SIGNATURES, 4 * MAX_PLACE_BYTES, bytes)
}

/// What is kept beside an image: what let it run now, then what did before, as far as there is
/// room. The image may be pulled under several names, each with a signature of its own.
pub fn to_keep(held: &[Placed], before: &[Placed]) -> Vec<u8> {
    let bytes = |placed: &Placed| kept::write(slice::from_ref(placed)).len();
    let all = held.iter().chain(before);
    kept::write(&bounded(all, kept::MAX_KEPT, MAX_SIGNATURES_BYTES, bytes).0)
}

/// The first of the signatures, each once, and how many more there are.
fn bounded<'p>(
    all: impl IntoIterator<Item = &'p Placed>,
    signatures: usize,
    bytes: usize,
    bytes_of: impl Fn(&Placed) -> usize,
) -> (Vec<Placed>, usize) {
    let (mut chosen, mut left, mut left_out) = (Vec::new(), bytes, 0);
    let mut seen = HashSet::new();
    for placed in all.into_iter().filter(|one| seen.insert(*one)) {
        match left.checked_sub(bytes_of(placed)) {
            Some(rest) if chosen.len() < signatures => {
                left = rest;
                chosen.push(placed.clone());
            }
            _ => left_out += 1,
        }
    }
    (chosen, left_out)
}

#[cfg(test)]
mod tests {
    use image_policy::Signature;
    use oci_image::digest::Digest;

    use super::*;

    #[test]
    fn what_is_held_at_once_is_bounded_and_there_once() {
        let digest = Digest::parse(&format!("sha256:{}", "1".repeat(64))).unwrap();
        let bundle = |bytes: Vec<u8>| (digest.clone(), Signature::Bundle(bytes));
        let small = |number: usize| bundle(number.to_string().into_bytes());
        let bytes = |placed: &Placed| placed.1.content_bytes();
        let others: Vec<_> = (0..3).map(small).collect();
        let own: Vec<_> = (1..9).map(small).collect();
        let (held, left_out) = bounded(others.iter().chain(&own), 5, 100, bytes);
        assert_eq!(held, (0..5).map(small).collect::<Vec<_>>(), "each once");
        assert_eq!(left_out, 4);

        let large = |number: u8| bundle(vec![number; 50]);
        let all = [large(1), small(1), large(2), small(2), large(1)];
        let held = vec![large(1), small(1), small(2)];
        assert_eq!(bounded(&all, 5, 100, bytes), (held, 1));
        let all = [large(1), large(2), large(3)];
        assert_eq!(bounded(&all, 5, 100, bytes), (all[..2].to_vec(), 1));
    }

    #[test]
    fn what_is_kept_is_bounded_and_there_once() {
        let digest = Digest::parse(&format!("sha256:{}", "1".repeat(64))).unwrap();
        let bundle = |bytes: Vec<u8>| (digest.clone(), Signature::Bundle(bytes));
        let (small, large) = (bundle(b"small".to_vec()), bundle(vec![0; MAX_SIGNATURES_BYTES]));
        let kept = to_keep(&[large, small.clone()], &[small.clone(), bundle(b"other".to_vec())]);
        assert_eq!(kept::read(&kept).unwrap().len(), 2);
        let many: Vec<_> = (0..100).map(|number| bundle(vec![number])).collect();
        let kept = to_keep(&[small], &many);
        assert_eq!(kept::read(&kept).unwrap().len(), kept::MAX_KEPT);
    }
}
