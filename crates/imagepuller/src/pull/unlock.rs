//! Finds the keys of encrypted layers, for exactly the manifest that is pulled, and on every pull.
//!
//! It does so even if all layers are in the store already: an image may be used by those who have
//! its keys, not by those whose neighbour had them.
//!
//! The author of an image, or of a document, may want to keep the guest busy or to learn about
//! other secrets by naming them. So operations are counted, fetching has a deadline, and an error
//! says nothing about a fetched secret that is no key: not its length and not its kind.

mod fetched;
mod given;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use keys::PrivateKey;
use keys::{Effort, Encryption, LayerKey, Unlocked, UnwrapError};
use oci_image::search::Image;
use pull_route::Settings;
use registry_config::RegistryHost;
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use super::secrets::Secrets;
use crate::blocking::blocking;
use crate::error::Error;
use crate::watch::Tell;

/// How many private keys may be tried on how many recipients, for one image. With one key it is
/// enough for as many recipients, of all layers together.
const MAX_OPERATIONS: u32 = 4096;

/// How long may be waited for everything that has to be fetched for one image.
const FETCH_TIME: Duration = Duration::from_secs(90);

/// The key of each layer, in the layers' order; none for plain ones.
pub type Keys = Vec<Option<Arc<LayerKey>>>;

/// Under which name an image is pulled: keys may be for some repositories only.
#[derive(Clone, Copy, Debug)]
pub struct Name<'n> {
    /// The registry.
    pub registry: &'n RegistryHost,
    /// The repository there.
    pub repository: &'n str,
}

/// Finds the keys of all encrypted layers.
///
/// # Errors
///
/// [`Error::Encryption`] and [`Error::Locked`]. A layer without a key is never taken for a plain
/// one.
pub async fn unlock(
    image: &Image,
    name: Name<'_>,
    settings: &Settings,
    secrets: &Secrets,
    tell: Tell,
) -> Result<Keys, Error> {
    let mut locked = Vec::new();
    for (at, (blob, _)) in image.layers.iter().enumerate() {
        if let Some(annotations) = blob.encryption() {
            let encryption = Encryption::parse(annotations)
                .map_err(|source| Error::Encryption { digest: blob.digest.clone(), source })?;
            let encryption = Arc::new(encryption);
            locked.push(LockedLayer { at, encryption, refused: None });
        }
    }
    let mut work = Unlocking {
        image,
        tell,
        keys: vec![None; image.layers.len()],
        locked,
        effort: Counted(Effort::new(MAX_OPERATIONS)),
        problems: Vec::new(),
    };
    if work.locked.is_empty() {
        return Ok(work.keys);
    }
    // What is at hand first: asking may take a while, and an attestation.
    work.try_given(settings, name).await?;
    let deadline = Instant::now() + FETCH_TIME;
    work.try_references(settings, name, secrets, deadline).await?;
    if settings.resources().is_some_and(|resources| resources.unwrap) {
        let hub = timeout_at(deadline, work.try_hub(settings, secrets));
        if hub.await.is_err() {
            work.give_up_fetching();
        }
    } else {
        work.try_packets(settings, secrets, deadline).await?;
    }
    let Some(first) = work.locked.into_iter().next() else {
        return Ok(work.keys);
    };
    let source = first
        .refused
        .ok_or_else(|| Error::Internal("a layer that nothing was tried on".to_owned()))?;
    Err(Error::Locked {
        digest: image.layers[first.at].0.digest.clone(),
        problems: work.problems,
        source,
    })
}

/// A layer that no key was found for yet.
struct LockedLayer {
    at: usize,
    encryption: Arc<Encryption>,
    /// Why the last keys did not open it.
    refused: Option<UnwrapError>,
}

/// What is left of [`MAX_OPERATIONS`]; nothing when the caller is gone, so that a thread that
/// computes for him ends.
struct Counted(Effort);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A private key, and where it came from.
type PlacedKey = (PrivateKey, String);

struct Unlocking<'a> {
    image: &'a Image,
    tell: Tell,
    keys: Keys,
    locked: Vec<LockedLayer>,
    effort: Counted,
    /// Why there are no more keys.
    problems: Vec<String>,
}

impl Unlocking<'_> {
    /// Whether a private key may help.
    fn wants_keys(&self) -> bool {
        self.locked.iter().any(|locked| locked.encryption.uses_keys())
    }

    /// Tries keys on all layers that are locked. Private keys are slow, so one layer at a time and
    /// where it may block.
    async fn attempt(
        &mut self,
        candidates: Vec<PlacedKey>,
        wrapping: BTreeMap<String, Zeroizing<Vec<u8>>>,
    ) -> Result<(), Error> {
        let (private, origins): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
        let (private, wrapping) = (Arc::new(private), Arc::new(wrapping));
        for mut locked in std::mem::take(&mut self.locked) {
            let (encryption, private, wrapping) =
                (locked.encryption.clone(), private.clone(), wrapping.clone());
            let effort = self.effort.0.clone();
            let unwrapped = blocking(move || Ok(encryption.unwrap(&private, &wrapping, &effort)));
            match unwrapped.await? {
                Ok(unlocked) => self.keep(locked.at, unlocked, &origins),
                Err(refused) => {
                    locked.refused = Some(refused);
                    self.locked.push(locked);
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, at: usize, unlocked: Unlocked, origins: &[String]) {
        let blob = &self.image.layers[at].0.digest;
        let how = match unlocked.by.and_then(|key| origins.get(key)) {
            Some(origin) => format!("{} with {origin}", unlocked.how),
            None => unlocked.how,
        };
        tracing::info!(%blob, how, "layer unlocked");
        (self.tell)(&json!({"event": "unlocked", "blob": blob.to_string(), "how": how}));
        self.keys[at] = Some(Arc::new(unlocked.key));
    }
}
