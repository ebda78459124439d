//! The annotations of an encrypted layer, and the ways to its key.

use std::collections::BTreeMap;

use crate::jwe::Jwe;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreign_text::shown;
use zeroize::Zeroizing;

use crate::effort::Effort;
use crate::layer_key::LayerKey;
use crate::options::{InvalidOptions, PublicOptions};
use crate::packet::{InvalidPacket, Packet};
use crate::private_key::PrivateKey;
use crate::unwrap::{Refused, Unlocked, UnwrapError};

/// The annotation with the public options.
const PUBLIC_OPTIONS: &str = "org.opencontainers.image.enc.pubopts";

/// What the names of annotations with wrapped keys begin with; the rest names the scheme.
const KEYS: &str = "org.opencontainers.image.enc.keys.";

/// The schemes that are read.
const JWE: &str = "jwe";
const PACKETS: &str = "provider.attestation-agent";

/// The name of the one key provider that is read.
const PROVIDER_NAME: &str = "attestation-agent";

/// The most wrapped keys in one annotation, and the most annotations with any. Each may cost as
/// many tries as there are decryption keys, for every layer of every pull. Images have one for each
/// group of people that may read them. Raising it breaks nothing.
pub const MAX_ENTRIES: usize = 32;

/// The most recipients of all JWEs of a layer together. Each costs an operation with every
/// decryption key that fits it. Raising it breaks nothing.
pub const MAX_RECIPIENTS: usize = 64;

/// The most bytes of one JWE: 32 recipients with RSA keys of 4096 bits fit. All of its content is
/// decrypted with every key that is tried. Raising it breaks nothing.
pub const MAX_JWE_BYTES: usize = 32 << 10;

/// The most bytes of an annotation: 32 recipients with RSA keys of 8192 bits fit. Raising it breaks
/// nothing.
pub const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// Why the annotations of a layer whose type says that it is encrypted cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEncryption {
    /// Nothing says which cipher it is.
    #[error("the annotation {PUBLIC_OPTIONS:?} is missing, which says how the layer is encrypted")]
    NoPublicOptions,
    /// There is no wrapped key, so it can never be decrypted.
    #[error("there is no annotation that begins with {KEYS:?}, so the layer's key is lost")]
    NoKeys,
    /// Larger than anything real.
    #[error(
        "the annotation {annotation} has {found} bytes, more than the limit of \
        {MAX_ANNOTATION_BYTES}"
    )]
    TooLong {
        /// Its name, quoted.
        annotation: String,
        /// How many bytes it has.
        found: usize,
    },
    /// More than anything real.
    #[error("there are {found} of {what}, more than the limit of {MAX_ENTRIES}")]
    TooMany {
        /// Entries of an annotation, or annotations.
        what: String,
        /// How many there are.
        found: usize,
    },
    /// One of the JWEs is larger than anything real.
    #[error("JWE {entry} has {found} bytes, more than the limit of {MAX_JWE_BYTES}")]
    JweBytes {
        /// Which entry of the annotation, counted from 1.
        entry: usize,
        /// How many bytes it has.
        found: usize,
    },
    /// More recipients than anything real has.
    #[error(
        "its JWEs have {0} recipients, more than the limit of {MAX_RECIPIENTS}; encrypt the image \
        for fewer keys"
    )]
    Recipients(usize),
    /// Not the encoding that every scheme has.
    #[error("entry {entry} of the annotation {annotation} is not padded standard base64")]
    Base64 {
        /// The annotation's name, quoted.
        annotation: String,
        /// Which of its entries, counted from 1.
        entry: usize,
    },
    /// The public options cannot be used.
    #[error("the annotation {PUBLIC_OPTIONS:?} cannot be used")]
    Options(#[source] InvalidOptions),
}

/// The public part of one layer's encryption.
#[derive(Clone, Debug)]
pub struct Encryption {
    public: PublicOptions,
    wrappings: Vec<Wrapping>,
}

/// One way to the layer's key. A broken one does not stop the others, which may be for other
/// readers.
#[derive(Clone, Debug)]
struct Wrapping {
    /// For messages, such as `JWE 1`; entries are counted from 1.
    way: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Jwe(Result<Jwe, String>),
    Packet { entry: usize, text: Vec<u8>, packet: Result<Packet, InvalidPacket> },
    Unread,
}

impl Encryption {
    /// Reads the annotations of a layer whose media type says that it is encrypted. Others than
    /// those of the encryption may be among them.
    ///
    /// # Errors
    ///
    /// [`InvalidEncryption`], which is never a reason to take the layer for a plain one.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Result<Self, InvalidEncryption> {
        let public = annotations.get(PUBLIC_OPTIONS);
        let public = public.ok_or(InvalidEncryption::NoPublicOptions)?;
        check_length(PUBLIC_OPTIONS, public)?;
        let public = PublicOptions::parse_annotation(public).map_err(InvalidEncryption::Options)?;
        let (mut jwes, mut packets, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for (annotation, list) in annotations {
            let Some(scheme) = annotation.strip_prefix(KEYS) else {
                continue;
            };
            // Writers that filter annotations leave empty ones behind, which the others take for
            // none.
            if list.is_empty() {
                continue;
            }
            check_length(annotation, list)?;
            match scheme {
                JWE => {
                    for (entry, text) in entries(annotation, list)? {
                        let found = text.len();
                        if found > MAX_JWE_BYTES {
                            return Err(InvalidEncryption::JweBytes { entry, found });
                        }
                        let way = format!("JWE {entry}");
                        jwes.push(Wrapping { way, kind: Kind::Jwe(Jwe::parse(&text)) });
                    }
                }
                PACKETS => {
                    for (entry, text) in entries(annotation, list)? {
                        let packet = Packet::parse(&text);
                        let mut way = format!("key provider {PROVIDER_NAME} {entry}");
                        if let Ok(packet) = &packet {
                            way += &format!(", {}", packet.kid());
                        }
                        packets.push(Wrapping { way, kind: Kind::Packet { entry, text, packet } });
                    }
                }
                _ => unread.push(Wrapping { way: unread_scheme(scheme), kind: Kind::Unread }),
            }
        }
        check_number("annotations with wrapped keys", unread.len())?;
        let readable = jwes.iter().filter_map(Wrapping::jwe);
        let recipients = readable.map(Jwe::recipients).sum();
        if recipients > MAX_RECIPIENTS {
            return Err(InvalidEncryption::Recipients(recipients));
        }
        let wrappings = [jwes, packets, unread].concat();
        if wrappings.is_empty() {
            return Err(InvalidEncryption::NoKeys);
        }
        Ok(Self { public, wrappings })
    }

    /// The packets that could be opened, if there were the keys that they name.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.wrappings.iter().filter_map(|wrapping| match &wrapping.kind {
            Kind::Packet { packet, .. } => packet.as_ref().ok(),
            _ => None,
        })
    }

    /// The packets that a data hub may open, each with its entry, counted from 1, its text and, of
    /// one for the key broker, the name of its key: those for the key broker, and those for another
    /// provider.
    pub fn packets_for_hub(&self) -> impl Iterator<Item = (usize, &[u8], Option<&str>)> {
        self.wrappings.iter().filter_map(|wrapping| {
            let Kind::Packet { entry, text, packet } = &wrapping.kind else {
                return None;
            };
            let is_for_hub = match packet {
                Ok(_) => true,
                Err(error) => matches!(error, InvalidPacket::Provider(_)),
            };
            let kid = packet.as_ref().ok().map(Packet::kid);
            is_for_hub.then_some((*entry, text.as_slice(), kid))
        })
    }

    /// The layer's key in the options that a data hub has unwrapped.
    ///
    /// # Errors
    ///
    /// [`InvalidOptions`], which says nothing of what is in them.
    pub fn unwrapped_by_hub(&self, options: &[u8]) -> Result<Unlocked, InvalidOptions> {
        let key = LayerKey::parse(options, &self.public)?;
        Ok(Unlocked { key, how: "by UnWrapKey of the hub".to_owned(), by: None })
    }

    /// Whether decryption keys could be of any use.
    pub fn uses_keys(&self) -> bool {
        self.wrappings.iter().any(|wrapping| wrapping.jwe().is_some())
    }

    /// Finds the layer's key with decryption keys and, by the names in the packets, keys of the key
    /// broker. The first way that leads to a usable key is taken: JWEs come before packets, in the
    /// image's order. Each operation with a private key is taken from `effort`; packets cost none,
    /// and are tried also when it is spent.
    ///
    /// # Errors
    ///
    /// [`UnwrapError`] with a reason for each way, and saying so if `effort` was spent before every
    /// key was tried.
    pub fn unwrap(
        &self,
        keys: &[PrivateKey],
        key_encryption_keys: &BTreeMap<String, Zeroizing<Vec<u8>>>,
        effort: &Effort,
    ) -> Result<Unlocked, UnwrapError> {
        let mut refused = Vec::new();
        for wrapping in &self.wrappings {
            let found = match &wrapping.kind {
                Kind::Jwe(jwe) => self.open_jwe(jwe, keys, effort),
                Kind::Packet { packet, .. } => self.open_packet(packet, key_encryption_keys),
                Kind::Unread => Err(Refused::Unread),
            };
            match found {
                Ok(unlocked) => return Ok(unlocked),
                Err(why) => refused.push((wrapping.way.clone(), why)),
            }
        }
        Err(UnwrapError { refused })
    }

    fn open_jwe(
        &self,
        jwe: &Result<Jwe, String>,
        keys: &[PrivateKey],
        effort: &Effort,
    ) -> Result<Unlocked, Refused> {
        let jwe = jwe.as_ref().map_err(|error| Refused::Jwe(error.clone()))?;
        if keys.is_empty() {
            return Err(Refused::NoKeys);
        }
        let opened = jwe.open(keys, effort)?;
        let key = LayerKey::parse(&opened.plain, &self.public).map_err(Refused::Options)?;
        Ok(Unlocked { key, how: opened.algorithm.to_owned(), by: Some(opened.key) })
    }

    fn open_packet(
        &self,
        packet: &Result<Packet, InvalidPacket>,
        keys: &BTreeMap<String, Zeroizing<Vec<u8>>>,
    ) -> Result<Unlocked, Refused> {
        let packet = packet.as_ref().map_err(|error| Refused::Packet(error.clone()))?;
        let key = keys.get(packet.kid()).ok_or(Refused::NotFetched)?;
        let plain = packet.open(key).map_err(Refused::Unopened)?;
        let key = LayerKey::parse(&plain, &self.public).map_err(Refused::Options)?;
        let how = format!("key provider {PROVIDER_NAME}, {}", packet.kid());
        Ok(Unlocked { key, how, by: None })
    }
}

impl Wrapping {
    /// A JWE that can be read.
    fn jwe(&self) -> Option<&Jwe> {
        match &self.kind {
            Kind::Jwe(jwe) => jwe.as_ref().ok(),
            _ => None,
        }
    }
}

/// A scheme that is not read, in words.
///
/// PKCS#7 is not because its keys are transported with RSA PKCS #1 v1.5, the padding that decades
/// of attacks were about, in ASN.1 in BER, for which the maintained crates have types but no
/// decryption: it would be much code for what JWE does better. Images can be given a JWE key beside
/// it.
fn unread_scheme(name: &str) -> String {
    match name {
        "pgp" => "OpenPGP".to_owned(),
        "pkcs7" => "PKCS#7".to_owned(),
        "pkcs11" => "PKCS#11".to_owned(),
        _ => match name.strip_prefix("provider.") {
            Some(provider) => format!("key provider {}", shown(provider).quoted()),
            None => format!("the unknown scheme {}", shown(name).quoted()),
        },
    }
}

/// The entries of a list, counted from 1.
fn entries(annotation: &str, list: &str) -> Result<Vec<(usize, Vec<u8>)>, InvalidEncryption> {
    check_number(
        &format!("entries of the annotation {}", shown(annotation).quoted()),
        list.split(',').count(),
    )?;
    let decode = |(text, entry): (&str, usize)| match STANDARD.decode(text) {
        Ok(text) => Ok((entry, text)),
        Err(_) => Err(InvalidEncryption::Base64 {
            annotation: shown(annotation).quoted().to_string(),
            entry,
        }),
    };
    list.split(',').zip(1..).map(decode).collect()
}

fn check_length(annotation: &str, value: &str) -> Result<(), InvalidEncryption> {
    if value.len() <= MAX_ANNOTATION_BYTES {
        return Ok(());
    }
    Err(InvalidEncryption::TooLong {
        annotation: shown(annotation).quoted().to_string(),
        found: value.len(),
    })
}

fn check_number(what: &str, found: usize) -> Result<(), InvalidEncryption> {
    if found <= MAX_ENTRIES {
        return Ok(());
    }
    Err(InvalidEncryption::TooMany { what: what.to_owned(), found })
}

#[cfg(test)]
mod tests;
