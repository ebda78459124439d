//! Signatures on their way to a judgement, and those that are kept.

use std::collections::{BTreeMap, HashSet};

use image_policy::Signature;
use image_policy::kept::{self, Placed};
use image_policy::places::{MAX_PLACE_BYTES, MAX_SIGNATURES};
use layer_store::limits::MAX_SIGNATURES_BYTES;
use oci_image::digest::Digest;

/// How many signatures are held at once, and how many bytes they have.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    signatures: usize,
    bytes: usize,
}

/// Of what one source has: as much as two places of two contents may have, the manifest and the
/// index above it. What is above that, of indexes in indexes, is left out.
pub const OF_SOURCE: Bound = Bound { signatures: 4 * MAX_SIGNATURES, bytes: 4 * MAX_PLACE_BYTES };

/// The signatures of each content, in the order of the contents.
pub fn by_content<'p>(
    contents: &[Digest],
    found: impl IntoIterator<Item = &'p Placed>,
) -> Vec<(Digest, Vec<Signature>)> {
    let mut sorted: BTreeMap<&Digest, Vec<Signature>> = BTreeMap::new();
    for (digest, signature) in found {
        sorted.entry(digest).or_default().push(signature.clone());
    }
    let mut of = |digest: &Digest| sorted.remove(digest).unwrap_or_default();
    let contents = contents.iter();
    contents.map(|digest| (digest.clone(), of(digest))).collect()
}

/// The first of the signatures, each once, and how many more there are.
pub fn bounded<'p>(
    all: impl IntoIterator<Item = &'p Placed>,
    bound: Bound,
) -> (Vec<Placed>, usize) {
    let (mut chosen, mut bytes, mut left_out) = (Vec::new(), 0, 0);
    let mut seen = HashSet::new();
    for placed in all.into_iter().filter(|one| seen.insert(*one)) {
        let with_it = bytes + placed.1.content_bytes();
        if chosen.len() < bound.signatures && with_it <= bound.bytes {
            bytes = with_it;
            chosen.push(placed.clone());
        } else {
            left_out += 1;
        }
    }
    (chosen, left_out)
}

/// What is kept beside an image: what let it run now, then what did before, as far as there is
/// room. The image may be pulled under several names, each with a signature of its own.
pub fn to_keep(held: &[Placed], before: &[Placed]) -> Vec<u8> {
    let mut chosen: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    for placed in held.iter().chain(before) {
        let written = kept::write(std::slice::from_ref(placed));
        let is_full =
            chosen.len() == kept::MAX_KEPT || bytes + written.len() > MAX_SIGNATURES_BYTES;
        if !is_full && !chosen.contains(&written) {
            bytes += written.len();
            chosen.push(written);
        }
    }
    chosen.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_at_once_is_bounded_and_there_once() {
        let digest = Digest::parse(&format!("sha256:{}", "1".repeat(64))).unwrap();
        let bundle = |bytes: Vec<u8>| (digest.clone(), Signature::Bundle(bytes));
        let small = |number: usize| bundle(number.to_string().into_bytes());
        let bound = Bound { signatures: 5, bytes: 100 };
        let others: Vec<_> = (0..3).map(small).collect();
        let own: Vec<_> = (1..9).map(small).collect();
        let (held, left_out) = bounded(others.iter().chain(&own), bound);
        assert_eq!(held, (0..5).map(small).collect::<Vec<_>>(), "each once");
        assert_eq!(left_out, 4);

        let large = |number: u8| bundle(vec![number; 50]);
        let all = [large(1), small(1), large(2), small(2), large(1)];
        let held = vec![large(1), small(1), small(2)];
        assert_eq!(bounded(&all, bound), (held, 1));
        let all = [large(1), large(2), large(3)];
        assert_eq!(bounded(&all, bound), (all[..2].to_vec(), 1));
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
