//! Keys of encrypted images, as secrets hold them.
//!
//! There is no type of secret for them in Kubernetes: the proposal of `ImageDecryptSecret` was
//! never merged. Its list survives, `base64(key)[:base64(password)]` with commas
//! between, in one value. The other form that clusters have is a secret with key files in it. Both
//! are read, from manifests, from the directory that a secret is mounted at, and as files of their
//! own:
//!
//! - a value that is a private key in PEM, DER or as JWK is that key; where the secret has a value
//!   of the same name with `.password` behind it, that is its password, less the line end;
//! - a value of base64 is the list, in which a resource URI may stand for a key.
//!   A password in it is base64, as ocicrypt has it, or stands there as it is, as the proposal has
//!   it: whichever opens the key.
//!
//! Keys are for every image, or for those that the caller names, or the annotation `images` of
//! their secret.
//!
//! Every key is read as the guest would read it, and told what it is; one that cannot be used is
//! left out and told too. A secret may be written to keep the node busy: items and
//! passwords are counted before anything is done with them.
//!
//! - `reading`: sources, one after the other. `value`: a value, told apart. `images`: what the keys
//!   are for. `adding`: keys put into a document.

mod adding;
mod images;
mod reading;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;

use keys::{KeyError, PrivateKey};
use registry_config::{DecryptionKey, RegistryName, Secret};
use zeroize::Zeroizing;

use self::reading::Reading;
use crate::{Finding, Loss};

pub use adding::put_below;
pub use images::prefix;

/// The most items of all values of all secrets together, also of those that hold no key; a value
/// that is no list is one item. To read a key takes up to milliseconds. Free to change.
pub const MAX_VALUES: usize = 256;

/// The most keys with passwords that are tried in one import; each may take a second, or two where
/// the password can be read in two ways. The guest tries no more for one image, so further ones are
/// left out unread.
pub const MAX_PASSWORDS: usize = 16;

/// The longest value: a list of a few keys of the greatest length. Free to change.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// Values of a secret, or files of a directory, by their names.
pub type Values = BTreeMap<String, Zeroizing<Vec<u8>>>;

/// What keys are read from. `name` is for people.
#[derive(Clone, Copy)]
pub enum Source<'s> {
    /// A file: a key, a list of keys, or manifests of secrets.
    File {
        /// Its name.
        name: &'s str,
        /// Its content.
        text: &'s [u8],
    },
    /// A secret as the kubelet mounts it.
    Mounted {
        /// The directory.
        name: &'s str,
        /// Its files.
        values: &'s Values,
    },
}

/// A key as the document has it.
#[derive(Clone, Debug)]
pub struct Key {
    /// Where it comes from, printable.
    pub source: String,
    /// The images that it is for: a host's, or those of some of its repositories; none for all.
    pub images: Vec<RegistryName>,
    item: Secret,
    /// What it is, in words.
    what: String,
}

/// What was read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Imported {
    /// The keys, each once.
    pub keys: Vec<Key>,
    /// What each value is, and what was left out.
    pub findings: Vec<Finding>,
    /// What cannot be read at all.
    pub faults: Vec<Finding>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::File { name, .. } | Self::Mounted { name, .. }) = self;
        f.debug_tuple("Source").field(name).finish()
    }
}

/// Reads keys, which are for the images `only`; where that names none, for those that the
/// annotation of their secret names, or for all.
///
/// The sources may come from an attacker: their lengths and numbers are bounded, and nothing of
/// them but names appears in what is told. Keys are kept in memory that is zeroed.
#[must_use]
pub fn import(sources: &[Source<'_>], only: &[RegistryName]) -> Imported {
    let only = images::sorted(only.to_vec());
    let mut reading = Reading::new(&only);
    for source in sources {
        match *source {
            Source::File { name, text } => {
                if let Err(text) = reading.file(name, text) {
                    let fault = Finding::new(name, "", Loss::Lost, text);
                    reading.imported.faults.push(fault);
                }
            }
            Source::Mounted { name, values } => {
                let values = values.iter().map(|(key, value)| (key.as_str(), Some(value.clone())));
                reading.values(name, &values.collect());
            }
        }
    }
    reading.imported
}

/// What the guest would say of a key of a document: what it is, or why it cannot be used. Never
/// shows a part of it.
///
/// # Errors
///
/// The reason, as a fragment without a full stop.
pub fn describe(key: &DecryptionKey) -> Result<String, String> {
    kind_of(key).map_err(|error| error.to_string())
}

fn kind_of(key: &DecryptionKey) -> Result<String, KeyError> {
    match key {
        DecryptionKey::Reference(reference) => Ok(format!("a reference, {reference}")),
        DecryptionKey::Given { key, password } => {
            PrivateKey::read(key, password.as_ref().map(|password| password.as_slice()))
                .map(|key| format!("a private key, {}", key.describe()))
        }
    }
}
