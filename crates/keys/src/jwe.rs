//! JSON Web Encryption (RFC 7516), opened: the compact form, the flattened and the general JSON
//! form.
//!
//! Libraries disagree about messages that contradict themselves, so such a message is refused: a
//! member in two headers, a name twice, a `recipients` beside a `header`. One exception: an
//! `encrypted_key` beside `recipients` is accepted if it is the first recipient's, because go-jose
//! writes it, and so every image for several recipients has it.

mod content;
mod error;
mod header;
mod limits;
mod recipient;
mod serialization;

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::private_key::PrivateKey;
use content::Content;
pub use error::JweError;
use header::Header;
pub use limits::{
    MAX_ENCRYPTED_KEY_BYTES, MAX_HEADER_BYTES, MAX_PARTY_BYTES, MAX_RECIPIENTS, MAX_TEXT_BYTES,
};
use recipient::Recipient;
use serialization::Members;

/// A message that is encrypted to one or several recipients. No part of it is authenticated before
/// it is opened.
#[derive(Clone)]
pub struct Jwe {
    content: Content,
    recipients: Vec<Recipient>,
    /// What the other recipients use, which is not supported.
    unsupported: Vec<&'static str>,
}

/// What was in a message.
pub struct Opened {
    /// The content, authenticated.
    pub plain: Zeroizing<Vec<u8>>,
    /// The key management algorithm, such as `RSA-OAEP`.
    pub algorithm: &'static str,
    /// Which of the keys opened it, counted from 0.
    pub key: usize,
}

impl Jwe {
    /// Reads a message in any of its three forms.
    ///
    /// # Errors
    ///
    /// If it is none, is larger than allowed, or asks for something that is not supported.
    pub fn parse(text: &[u8]) -> Result<Self, JweError> {
        let members = Members::read(text)?;
        let protected = members.protected()?;
        let mut recipients = Vec::new();
        let mut unsupported = Vec::new();
        let mut encryption = None;
        for (header, encrypted_key) in members.recipients() {
            let header = Header::merge([protected.as_ref(), members.unprotected(), header])?;
            let asked = header.encryption()?;
            if encryption.is_some_and(|earlier| earlier != asked) {
                return Err(JweError::Malformed(
                    "has recipients with different content encryptions (enc)",
                ));
            }
            encryption = Some(asked);
            match Recipient::read(&header, encrypted_key)? {
                Ok(recipient) => recipients.push(recipient),
                Err(name) => unsupported.push(name),
            }
        }
        let Some(encryption) = encryption.filter(|_| !recipients.is_empty()) else {
            return Err(JweError::KeyAlgorithm(list(unsupported)));
        };
        Ok(Self { content: members.content(encryption)?, recipients, unsupported })
    }

    /// How many recipients it may be opened as; those whose algorithms are not supported are not
    /// among them.
    pub fn recipients(&self) -> usize {
        self.recipients.len()
    }

    /// Opens the message with the first key that does, trying every key with every recipient that
    /// it fits. Names of keys (`kid`) decide nothing: they are what the sender says.
    ///
    /// # Errors
    ///
    /// [`JweError::NoKey`] for every reason; the reasons cannot be told apart.
    pub fn open(&self, keys: &[PrivateKey]) -> Result<Opened, JweError> {
        self.open_within(keys, &mut || true)
    }

    /// Opens the message like [`Jwe::open`], and asks before each operation with a private key
    /// whether that is still wanted. A key that does not fit a recipient, or could not have made
    /// what is wrapped for it, costs no operation.
    ///
    /// # Errors
    ///
    /// [`JweError::NoKey`], or [`JweError::Stopped`] as soon as `spend` says `false`.
    pub fn open_within(
        &self,
        keys: &[PrivateKey],
        spend: &mut dyn FnMut() -> bool,
    ) -> Result<Opened, JweError> {
        for recipient in &self.recipients {
            for (index, key) in keys.iter().enumerate() {
                if !recipient.fits(key) {
                    continue;
                }
                if !spend() {
                    return Err(JweError::Stopped);
                }
                let content_key = recipient.unwrap(key, self.content.encryption.key_bytes());
                if let Some(plain) = content_key.and_then(|key| self.content.open(&key)) {
                    return Ok(Opened {
                        plain,
                        algorithm: recipient.algorithm().name(),
                        key: index,
                    });
                }
            }
        }
        Err(self.no_key(keys))
    }

    fn no_key(&self, keys: &[PrivateKey]) -> JweError {
        let supported = self.recipients.iter().map(Recipient::describe);
        let others = self.unsupported.iter().map(|name| format!("{name} (not supported)"));
        let mut counts = BTreeMap::new();
        for key in keys {
            *counts.entry(key.describe()).or_insert(0_usize) += 1;
        }
        let had = counts.into_iter().map(|(kind, count)| format!("{count} of {kind}"));
        JweError::NoKey { wanted: list(supported.chain(others)), had: list(had) }
    }
}

/// What it is encrypted with and for, and no foreign bytes.
impl std::fmt::Debug for Jwe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let recipients: Vec<String> = self.recipients.iter().map(Recipient::describe).collect();
        f.debug_struct("Jwe")
            .field("encryption", &self.content.encryption)
            .field("recipients", &recipients)
            .field("unsupported", &self.unsupported)
            .finish_non_exhaustive()
    }
}

/// Never the content.
impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("algorithm", &self.algorithm)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Words with commas between them, each once.
fn list<T: Into<String>>(words: impl IntoIterator<Item = T>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for word in words.into_iter().map(Into::into) {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    if seen.is_empty() {
        return "none".to_owned();
    }
    seen.join(", ")
}
