//! Which key made which signature, found out once for as long as one image is pulled.
//!
//! To verify is what costs time. A policy may have many scopes and keys, a registry may hand over
//! many signatures, mirrors hand over the same ones, and who looks for the few that are enough
//! judges several times. So each pair of a key and a signature is tried once, whatever asks for it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};

use crate::key::PublicKey;
use crate::places::MAX_SIGNATURES;
use crate::policy::{KeyPlace, MAX_POLICY_KEYS};

/// Of how many signatures the outcomes are remembered: several times what one source may bring, in
/// two places of two contents; about 100 bytes each. Beyond it all of them are forgotten, for a
/// source that is asked again may bring others each time.
const MAX_REMEMBERED: usize = 16 * MAX_SIGNATURES;

/// The words of a set of keys, a bit for each.
const WORDS: usize = MAX_POLICY_KEYS.div_ceil(64);

/// A key that was read, and its number.
#[derive(Clone, Debug)]
pub(crate) struct KnownKey {
    number: usize,
    key: Arc<PublicKey>,
}

/// What stands beside what: it says which hashes the key's signature may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Simple,
    Bundle,
}

/// What is signed, the signature, and what both are known by.
pub(crate) struct Signed {
    form: Form,
    message: Vec<u8>,
    signature: Vec<u8>,
    hash: [u8; 32],
}

/// What has been found out, for the rulings that are given it.
///
/// They must be of one policy and one pull: a key that was read is not read again.
#[derive(Default)]
pub struct Proofs {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: BTreeMap<KeyPlace, KnownKey>,
    /// By the hashes of signatures.
    outcomes: HashMap<[u8; 32], Outcomes>,
    tried: u64,
}

/// The keys that one signature was held against, by their numbers, and those that made it.
#[derive(Clone, Copy, Default)]
struct Outcomes {
    tried: [u64; WORDS],
    made: [u64; WORDS],
}

impl Outcomes {
    fn of(&self, number: usize) -> Option<bool> {
        let is_in = |set: &[u64; WORDS]| set.get(number / 64).map(|word| word >> (number % 64) & 1);
        let is_tried = is_in(&self.tried)? == 1;
        is_tried.then(|| is_in(&self.made) == Some(1))
    }

    /// A key beyond the most that a policy has is tried each time.
    fn note(&mut self, number: usize, outcome: bool) {
        let sets = self.tried.get_mut(number / 64).zip(self.made.get_mut(number / 64));
        if let Some((tried, made)) = sets {
            *tried |= 1 << (number % 64);
            *made |= u64::from(outcome) << (number % 64);
        }
    }
}

impl Signed {
    pub(crate) fn new(form: Form, message: Vec<u8>, signature: Vec<u8>) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(&[form as u8]);
        // The length says where the one ends.
        context.update(&(message.len() as u64).to_le_bytes());
        context.update(&message);
        context.update(&signature);
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        Self { form, message, signature, hash }
    }

    /// What is signed.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }
}

impl Proofs {
    /// A key, read once; `read` is asked again where it failed.
    pub(crate) fn key<E>(
        &self,
        place: &KeyPlace,
        read: impl FnOnce() -> Result<PublicKey, E>,
    ) -> Result<KnownKey, E> {
        let mut state = self.lock();
        if let Some(known) = state.keys.get(place) {
            return Ok(known.clone());
        }
        let key = Arc::new(read()?);
        let number = state.keys.len();
        let known = KnownKey { number, key };
        state.keys.insert(place.clone(), known.clone());
        Ok(known)
    }

    /// Whether one of the keys signed.
    pub(crate) fn is_by_one_of(&self, keys: &[KnownKey], signed: &Signed) -> bool {
        let mut state = self.lock();
        keys.iter().any(|KnownKey { number, key }| {
            let known = state.outcomes.get(&signed.hash);
            if let Some(outcome) = known.and_then(|known| known.of(*number)) {
                return outcome;
            }
            let Signed { message, signature, .. } = signed;
            let outcome = match signed.form {
                Form::Simple => key.verifies(message, signature),
                Form::Bundle => key.verifies_bundle(message, signature),
            };
            state.remember(signed.hash, *number, outcome);
            outcome
        })
    }

    /// How often a signature was held against a key.
    pub fn tried(&self) -> u64 {
        self.lock().tried
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember(&mut self, hash: [u8; 32], number: usize, outcome: bool) {
        self.tried += 1;
        if self.outcomes.len() == MAX_REMEMBERED && !self.outcomes.contains_key(&hash) {
            self.outcomes.clear();
        }
        self.outcomes.entry(hash).or_default().note(number, outcome);
    }
}

/// No foreign byte.
impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proofs({} keys)", self.lock().keys.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut state = State::default();
        let hash = |number: usize| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&(number as u64).to_le_bytes());
            hash
        };
        for number in 0..MAX_REMEMBERED {
            state.remember(hash(number), 0, false);
        }
        state.remember(hash(0), 1, false);
        assert_eq!(state.outcomes.len(), MAX_REMEMBERED);
        state.remember(hash(MAX_REMEMBERED), 0, false);
        assert_eq!(state.outcomes.len(), 1);
        assert_eq!(state.tried, MAX_REMEMBERED as u64 + 2);
    }

    #[test]
    fn each_key_has_an_outcome_of_its_own() {
        let mut outcomes = Outcomes::default();
        for number in 0..MAX_POLICY_KEYS {
            assert_eq!(outcomes.of(number), None);
            outcomes.note(number, number % 3 == 0);
            let all = (0..=number).all(|number| outcomes.of(number) == Some(number % 3 == 0));
            assert!(all, "{number}");
        }
        outcomes.note(MAX_POLICY_KEYS, true);
        assert_eq!(outcomes.of(MAX_POLICY_KEYS), None);
    }
}
