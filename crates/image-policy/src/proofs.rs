//! Which key made which signature, found out once while one image is judged.
//!
//! To verify is what costs time. A policy may have many scopes and keys, a registry may hand over
//! many signatures, and who looks for the few that are enough judges several times. So each pair of
//! a key and a signature is tried once, whatever asks for it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};

use crate::key::PublicKey;
use crate::policy::KeyPlace;

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

/// What has been found out.
#[derive(Default)]
pub(crate) struct Proofs {
    keys: RefCell<BTreeMap<KeyPlace, KnownKey>>,
    outcomes: RefCell<HashMap<(usize, [u8; 32]), bool>>,
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
        Self {
            form,
            message,
            signature,
            hash,
        }
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
        if let Some(known) = self.keys.borrow().get(place) {
            return Ok(known.clone());
        }
        let key = Arc::new(read()?);
        let mut keys = self.keys.borrow_mut();
        let number = keys.len();
        let known = KnownKey { number, key };
        keys.insert(place.clone(), known.clone());
        Ok(known)
    }

    /// Whether one of the keys signed.
    pub(crate) fn is_by_one_of(&self, keys: &[KnownKey], signed: &Signed) -> bool {
        let mut outcomes = self.outcomes.borrow_mut();
        keys.iter().any(|KnownKey { number, key }| {
            let Signed {
                message, signature, ..
            } = signed;
            let verify = || match signed.form {
                Form::Simple => key.verifies(message, signature),
                Form::Bundle => key.verifies_bundle(message, signature),
            };
            *outcomes
                .entry((*number, signed.hash))
                .or_insert_with(verify)
        })
    }

    /// How many pairs of a key and a signature were tried.
    #[cfg(test)]
    pub(crate) fn tried(&self) -> usize {
        self.outcomes.borrow().len()
    }
}

/// No foreign byte.
impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proofs({} keys)", self.keys.borrow().len())
    }
}
