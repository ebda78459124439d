//! What a reference stands for: a resource, or the content of a sealed secret.
//!
//! A sealed secret needs resources itself: the key that verifies it, and what it points to. So this
//! stands above both the sources and the sealed form.

use jose::{Jws, VerifyingKey};
use puller_config::{ResourceUri, SecretReference};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::client::Client;
use crate::error::{Error, SealedError};
use crate::sealed::payload::Payload;

/// What a sealed secret begins with.
const PREFIX: &str = "sealed.";

impl Client {
    /// Gets the secret that a reference stands for: a resource, or what is in a sealed secret.
    ///
    /// # Errors
    ///
    /// As with [`Client::resource`], and [`Error::Sealed`].
    pub async fn reference(
        &self,
        reference: &SecretReference,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let deadline = self.deadline();
        match reference {
            SecretReference::Resource(uri) => self.resolve(uri, deadline).await,
            SecretReference::Sealed(text) => Ok(open(self, text.expose(), deadline).await?),
        }
    }
}

/// Verifies and opens a sealed secret.
async fn open(
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
    let key = VerifyingKey::from_jwk(&key)
        .map_err(|reason| SealedError::NotAKey { uri: uri.clone(), reason })?;
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
