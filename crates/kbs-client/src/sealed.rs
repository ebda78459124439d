//! Sealed secrets: `sealed.` and a compact JWS (RFC 7515) whose payload says where the secret is,
//! or holds it encrypted.
//!
//! Their owner signs them, so whoever carries one, our packed document for instance, cannot point
//! it elsewhere. The key that verifies them is a resource itself: a carrier could name any key that
//! the broker gives out, but has none to sign with.
//!
//! Specification: "Sealed Secrets" of the Confidential Containers guest components, version 0.1.0.
//! Signatures are always checked.
//!
//! - `payload`: what is signed. `envelope`: a secret that is encrypted in it.

use jose::{Jws, JwsError, VerifyingKey};
use puller_config::{InvalidResourceUri, ResourceUri};
use thiserror::Error;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::client::Client;
use crate::error::Error;

use self::payload::Payload;

mod envelope;
pub mod payload;

/// What a sealed secret begins with.
const PREFIX: &str = "sealed.";

/// Why a sealed secret stays closed. None of the texts repeats a part of it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SealedError {
    /// It is not `sealed.` and three parts.
    #[error(
        "it is not \"sealed.\" with three parts behind it (header, payload and signature); forms \
        without a real signature are not taken"
    )]
    Form,
    /// It is no JWS that this program reads.
    #[error("read its signed form: {0}")]
    Jws(#[source] JwsError),
    /// It does not say by which key it is signed.
    #[error(
        "its header has no \"kid\"; sign it with \"kid\" set to the kbs:/// URI of the public key"
    )]
    NoKid,
    /// It names a key that is no resource.
    #[error(
        "its \"kid\" is not the URI of a resource: {0}; file names are not taken, put the public \
        key into the broker"
    )]
    Kid(#[source] InvalidResourceUri),
    /// It names a key that a plugin of the broker makes up.
    #[error(
        "its \"kid\" names a plugin of the broker; a key that verifies is a resource, \
        kbs:///repository/type/tag"
    )]
    KidPlugin,
    /// The key that verifies it could not be had.
    #[error("get the key that verifies it: {0}")]
    Key(#[source] Box<Error>),
    /// What its `kid` names is no public key.
    #[error("read the key that verifies it, {uri}: {reason}")]
    NotAKey {
        /// Where the key should be.
        uri: ResourceUri,
        /// What is wrong with it.
        #[source]
        reason: JwsError,
    },
    /// The signature is not by that key.
    #[error("check its signature with {uri}: {reason}")]
    Signature {
        /// The key that was tried.
        uri: ResourceUri,
        /// What is wrong.
        #[source]
        reason: JwsError,
    },
    /// What is signed says nothing that this program understands.
    #[error("its payload {0}")]
    Payload(&'static str),
    /// What is signed names no resource.
    #[error("\"{member}\" of its payload is not the URI of a resource: {reason}")]
    Uri {
        /// The member.
        member: &'static str,
        /// What is wrong with it.
        #[source]
        reason: InvalidResourceUri,
    },
    /// The resource that it points to could not be had.
    #[error("get what it points to: {0}")]
    Target(#[source] Box<Error>),
    /// The key that encrypts it is none.
    #[error("{uri} is no key of 32 bytes, which \"A256GCM\" needs")]
    KeyLength {
        /// Where the key should be.
        uri: ResourceUri,
    },
    /// Something in it is not what the key encrypted.
    #[error("\"{member}\" of its payload was not encrypted with the key that belongs to it")]
    Decrypt {
        /// The member.
        member: &'static str,
    },
}

/// Verifies and opens a sealed secret.
pub async fn open(
    client: &Client,
    text: &str,
    deadline: Instant,
) -> Result<Zeroizing<Vec<u8>>, SealedError> {
    let text = text.strip_prefix(PREFIX).ok_or(SealedError::Form)?;
    if text.split('.').count() != 3 {
        return Err(SealedError::Form);
    }
    let signed = Jws::parse_compact(text.as_bytes()).map_err(SealedError::Jws)?;
    let kid = signed.kid().ok_or(SealedError::NoKid)?;
    let uri = ResourceUri::parse(kid).map_err(SealedError::Kid)?;
    if uri.plugin() != "resource" {
        return Err(SealedError::KidPlugin);
    }
    let key = client.resolve(&uri, deadline).await;
    let key = key.map_err(|error| SealedError::Key(Box::new(error)))?;
    let key = VerifyingKey::from_jwk(&key).map_err(|reason| SealedError::NotAKey {
        uri: uri.clone(),
        reason,
    })?;
    let payload = signed.verify(&key);
    let payload = payload.map_err(|reason| SealedError::Signature { uri, reason })?;
    match Payload::parse(&Zeroizing::new(payload))? {
        Payload::Vault(uri) => target(client, &uri, deadline).await,
        Payload::Envelope(envelope) => {
            let key = target(client, &envelope.key, deadline).await?;
            envelope.open(&key)
        }
    }
}

async fn target(
    client: &Client,
    uri: &ResourceUri,
    deadline: Instant,
) -> Result<Zeroizing<Vec<u8>>, SealedError> {
    let resource = client.resolve(uri, deadline).await;
    resource.map_err(|error| SealedError::Target(Box::new(error)))
}
