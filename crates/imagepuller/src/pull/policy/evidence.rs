//! Signatures on their way to a judgement, and how few of them are enough.

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

/// Of all that is held against a policy at once, whoever had it: what one source may have in two
/// places of two contents, the manifest and the index above it, beside what is held back. What is
/// above that, of indexes in indexes, is left out.
pub const AT_ONCE: Bound = Bound {
    signatures: 4 * MAX_SIGNATURES + HELD_BACK.signatures,
    bytes: 4 * MAX_PLACE_BYTES + HELD_BACK.bytes,
};

/// Of what is held back of what was kept, and of the sources before: what is enough for some of
/// what is asked for.
pub const HELD_BACK: Bound = Bound { signatures: MAX_SIGNATURES, bytes: MAX_PLACE_BYTES };

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

/// As few of the signatures as a verdict needs that holds with all of them. A signature more never
/// makes a verdict worse, so each that is needed is found by halving.
pub fn fewest<T: Clone>(all: &[T], holds: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut needed = Vec::new();
    let mut rest = all;
    while !rest.is_empty() && !holds(&needed) {
        let with = |count: usize| [&needed, rest.get(..count).unwrap_or(rest)].concat();
        // The shortest beginning with which it holds; its last one is needed.
        let (mut low, mut high) = (1, rest.len());
        while low < high {
            let middle = low.midpoint(high);
            match holds(&with(middle)) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        needed.extend(rest.get(low - 1).cloned());
        rest = rest.get(..low - 1).unwrap_or_default();
    }
    needed
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
    use std::cell::Cell;

    use super::*;

    #[test]
    fn few_judgements_find_the_few_that_are_needed() {
        let all: Vec<u32> = (0..1000).collect();
        for needed in [vec![], vec![0], vec![999], vec![3, 500], vec![1, 2, 998]] {
            let asked = Cell::new(0);
            let mut found = fewest(&all, |some| {
                asked.set(asked.get() + 1);
                needed.iter().all(|one| some.contains(one))
            });
            found.sort_unstable();
            assert_eq!(found, needed);
            assert!(asked.get() <= 1 + needed.len() * 12, "{}", asked.get());
        }
        // Any of two, and a verdict that never holds.
        assert_eq!(fewest(&all, |some| some.contains(&7) || some.contains(&9)), [7]);
        assert!(fewest(&all, |_| false).len() <= all.len());
    }

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

    /// What one source may have at most has room beside all that is held back.
    #[test]
    fn what_is_held_back_takes_nothing_from_a_source() {
        let digest = Digest::parse(&format!("sha256:{}", "1".repeat(64))).unwrap();
        let all_of = |places: usize, first: usize| -> Vec<Placed> {
            let bytes = MAX_PLACE_BYTES / MAX_SIGNATURES;
            let number = |number: usize| (first + number).to_le_bytes().repeat(bytes / 8);
            let bundle = |at: usize| (digest.clone(), Signature::Bundle(number(at)));
            (0..places * MAX_SIGNATURES).map(bundle).collect()
        };
        let (held_back, cut) = bounded(&all_of(2, 10_000), HELD_BACK);
        assert_eq!((held_back.len(), cut), (MAX_SIGNATURES, MAX_SIGNATURES));
        let own = all_of(4, 0);
        let (held, left_out) = bounded(held_back.iter().chain(&own), AT_ONCE);
        assert_eq!((held.len(), left_out), (held_back.len() + own.len(), 0));
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
