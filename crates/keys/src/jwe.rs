//! JSON Web Encryption (RFC 7516), opened: the compact form, the flattened and the general JSON
//! form.
//!
//! Libraries disagree about messages that contradict themselves, so such a message is refused: a
//! member in two headers, a name twice, a `recipients` beside a `header`. One exception: an
//! `encrypted_key` beside `recipients` is accepted if it is the first recipient's, because go-jose
//! writes it, and so every image for several recipients has it.

mod content;
mod header;
mod recipient;
mod serialization;

use zeroize::Zeroizing;

use crate::algorithm::ContentEncryption;
use crate::effort::Effort;
use crate::private_key::PrivateKey;
use crate::unwrap::Refused;
use content::Content;
use header::Header;
use recipient::Recipient;
use serialization::Members;

/// The longest protected header, in bytes as it is written. Real ones have some hundred.
pub const MAX_HEADER_BYTES: usize = 16 << 10;

/// The longest wrapped key, in bytes: the output of RSA with 8192 bits.
pub const MAX_ENCRYPTED_KEY_BYTES: usize = 1024;

/// The longest name of a party in a key agreement (`apu`, `apv`), in bytes. It is hashed once for
/// each key that is tried.
pub const MAX_PARTY_BYTES: usize = 256;

/// The most recipients of a message. Each one costs an operation with every private key that fits
/// it.
pub const MAX_RECIPIENTS: usize = 32;

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
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let members = Members::read(text)?;
        let protected = members.protected()?;
        let mut recipients = Vec::new();
        let mut unsupported = Vec::new();
        let mut encryption: Option<&ContentEncryption> = None;
        for (header, encrypted_key) in &members.recipients {
            let headers = [&protected, &members.unprotected, header];
            let header = Header::merge(headers.map(Option::as_ref))?;
            let asked = header.encryption()?;
            if encryption.is_some_and(|earlier| !std::ptr::eq(earlier, asked)) {
                return Err("it has recipients with different content encryptions (enc)".to_owned());
            }
            encryption = Some(asked);
            match Recipient::read(&header, encrypted_key)? {
                Ok(recipient) => recipients.push(recipient),
                Err(name) => unsupported.push(name),
            }
        }
        let Some(encryption) = encryption.filter(|_| !recipients.is_empty()) else {
            return Err(format!(
                "its key is wrapped with {}, which is not supported; use RSA-OAEP, RSA-OAEP-256, or \
                ECDH-ES+A256KW, +A192KW or +A128KW on P-256, P-384 or P-521",
                list(unsupported)
            ));
        };
        Ok(Self { content: members.content(encryption)?, recipients, unsupported })
    }

    /// How many recipients it may be opened as; those whose algorithms are not supported are not
    /// among them.
    pub fn recipients(&self) -> usize {
        self.recipients.len()
    }

    /// Opens the message with the first key that does, trying every key with every recipient that
    /// it fits; each such operation is taken from `effort`. A key that could not have made what is
    /// wrapped for a recipient costs none. Names of keys (`kid`) decide nothing: they are what the
    /// sender says.
    ///
    /// # Errors
    ///
    /// [`Refused::NoKeyOpens`] for every reason, which cannot be told apart, or
    /// [`Refused::Stopped`] as soon as `effort` is spent.
    pub fn open(&self, keys: &[PrivateKey], effort: &Effort) -> Result<Opened, Refused> {
        for recipient in &self.recipients {
            for (index, key) in keys.iter().enumerate() {
                if !recipient.fits(key) {
                    continue;
                }
                if !effort.spend() {
                    return Err(Refused::Stopped);
                }
                let content_key = recipient.unwrap(key, self.content.encryption.key_bytes);
                if let Some(plain) = content_key.and_then(|key| self.content.open(&key)) {
                    return Ok(Opened { plain, algorithm: recipient.algorithm.name, key: index });
                }
            }
        }
        let supported = self.recipients.iter().map(Recipient::describe);
        let others = self.unsupported.iter().map(|name| format!("{name} (not supported)"));
        Err(Refused::NoKeyOpens(list(supported.chain(others))))
    }
}

/// What it is encrypted with and for, and no foreign bytes.
impl std::fmt::Debug for Jwe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let recipients: Vec<String> = self.recipients.iter().map(Recipient::describe).collect();
        f.debug_struct("Jwe")
            .field("encryption", &self.content.encryption.name)
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
    seen.join(", ")
}
