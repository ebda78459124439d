//! The keys of encrypted layers, for exactly the manifest that is pulled, and on every pull.
//!
//! Also where all layers are in the store: having its keys is what allows an image to be used, not that somebody else had them. What
//! an encrypted layer is called in the store depends on its key for the same reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jose::PrivateKey;
use oci_image::digest::Digest;
use oci_image::search::Image;
use ocicrypt::{Encryption, How, LayerKey, Unlocked};
use puller_config::{DecryptionKey, ResourceUri};
use registry_client::settings::Settings;
use zeroize::Zeroizing;

use super::blocking;
use super::broker::Broker;
use crate::error::{Error, chain};
use crate::progress::{Event, Progress};

/// How many key encryption keys one image may name. One is common, and each costs a request.
const MAX_KEY_ENCRYPTION_KEYS: usize = 64;

/// The key of each layer, in the layers' order; none for plain ones.
pub type Keys = Vec<Option<Arc<LayerKey>>>;

/// Finds the keys of all encrypted layers.
///
/// # Errors
///
/// [`Error::Encryption`] and [`Error::Locked`]. A layer without a key is never taken for a plain one.
pub async fn unlock(
    image: &Image,
    settings: &Settings,
    broker: &Broker,
    progress: &Progress,
) -> Result<Keys, Error> {
    let mut locked = Vec::new();
    for (at, (blob, _)) in image.layers.iter().enumerate() {
        if let Some(annotations) = blob.encryption() {
            let encryption =
                Encryption::parse(annotations).map_err(|source| Error::Encryption {
                    digest: blob.digest.clone(),
                    source,
                })?;
            locked.push((at, Arc::new(encryption)));
        }
    }
    let mut keys: Keys = vec![None; image.layers.len()];
    if locked.is_empty() {
        return Ok(keys);
    }
    let mut ring = Ring::given(settings);
    // What is at hand first: asking may take a while, and an attestation.
    let mut still_locked = Vec::new();
    for (at, encryption) in locked {
        match ring.unwrap(&encryption).await? {
            Ok(unlocked) => {
                keys[at] = Some(ring.tell(&image.layers[at].0.digest, unlocked, progress))
            }
            Err(_) => still_locked.push((at, encryption)),
        }
    }
    if still_locked.is_empty() {
        return Ok(keys);
    }
    ring.ask(&still_locked, settings, broker).await;
    for (at, encryption) in still_locked {
        let digest = &image.layers[at].0.digest;
        match ring.unwrap(&encryption).await? {
            Ok(unlocked) => keys[at] = Some(ring.tell(digest, unlocked, progress)),
            Err(source) => {
                return Err(Error::Locked {
                    digest: digest.clone(),
                    problems: ring.problems,
                    source,
                });
            }
        }
    }
    Ok(keys)
}

/// The keys that there are.
#[derive(Default)]
struct Ring {
    private: Arc<Vec<PrivateKey>>,
    /// Where each of them came from, in words.
    origins: Vec<String>,
    /// Key encryption keys, by the `kid` that names them.
    wrapping: Arc<BTreeMap<String, Zeroizing<Vec<u8>>>>,
    /// Why there are no more.
    problems: Vec<String>,
}

impl Ring {
    /// The keys that the documents hold themselves.
    fn given(settings: &Settings) -> Self {
        let mut ring = Self::default();
        let mut private = Vec::new();
        // Counted in each document, as their authors count.
        let mut number = 0;
        let mut last = None;
        for (origin, key) in settings.decryption_keys() {
            number = if last == Some(origin) { number + 1 } else { 1 };
            last = Some(origin);
            if let DecryptionKey::Given { key, password } = key {
                let origin = format!("key {number} of [decryption-keys] in {origin}");
                let password = password.as_ref().map(|password| password.as_slice());
                ring.read(&mut private, key, password, origin);
            }
        }
        ring.private = Arc::new(private);
        ring
    }

    fn read(
        &mut self,
        private: &mut Vec<PrivateKey>,
        text: &[u8],
        password: Option<&[u8]>,
        origin: String,
    ) {
        match PrivateKey::read(text, password) {
            Ok(key) => {
                private.push(key);
                self.origins.push(origin);
            }
            // Another one may do; if none does, this is part of the reason.
            Err(error) => self.problems.push(format!("{origin}: {error}")),
        }
    }

    /// Fetches what else may help: private keys by reference, and the keys that the layers' key providers name.
    async fn ask(
        &mut self,
        locked: &[(usize, Arc<Encryption>)],
        settings: &Settings,
        broker: &Broker,
    ) {
        if locked.iter().any(|(_, encryption)| encryption.uses_keys()) {
            // Nobody else holds them between two calls of `unwrap`.
            let mut private = std::mem::take(&mut self.private);
            let mut fetched = Vec::new();
            for (_, key) in settings.decryption_keys() {
                if let DecryptionKey::Reference(reference) = key {
                    let origin = format!("the key {reference}");
                    match broker.fetch(reference, settings).await {
                        Ok(text) => self.read(&mut fetched, &text, None, origin),
                        Err(error) => self.problems.push(format!("{origin}: {}", chain(&error))),
                    }
                }
            }
            if let Some(private) = Arc::get_mut(&mut private) {
                private.append(&mut fetched);
            }
            self.private = private;
        }
        let packets = locked
            .iter()
            .flat_map(|(_, encryption)| encryption.packets());
        let wanted: BTreeSet<&str> = packets.map(|packet| packet.kid()).collect();
        let mut wrapping = BTreeMap::new();
        for kid in wanted.iter().take(MAX_KEY_ENCRYPTION_KEYS) {
            match ResourceUri::parse(kid) {
                Err(error) => self
                    .problems
                    .push(format!("the key {kid:?} of an image: {error}")),
                Ok(uri) => match broker.resource(&uri, settings).await {
                    Ok(key) => {
                        wrapping.insert((*kid).to_owned(), key);
                    }
                    Err(error) => self.problems.push(chain(&error)),
                },
            }
        }
        if wanted.len() > MAX_KEY_ENCRYPTION_KEYS {
            let problem = format!(
                "the image names {} keys, and {MAX_KEY_ENCRYPTION_KEYS} are fetched",
                wanted.len()
            );
            self.problems.push(problem);
        }
        self.wrapping = Arc::new(wrapping);
    }

    /// Tries all keys on a layer. Private keys are slow, so one layer at a time and where it may block.
    async fn unwrap(
        &self,
        encryption: &Arc<Encryption>,
    ) -> Result<Result<Unlocked, ocicrypt::UnwrapError>, Error> {
        let (encryption, private, wrapping) = (
            encryption.clone(),
            self.private.clone(),
            self.wrapping.clone(),
        );
        blocking(move || Ok(encryption.unwrap(&private, &wrapping))).await
    }

    fn tell(&self, blob: &Digest, unlocked: Unlocked, progress: &Progress) -> Arc<LayerKey> {
        let how = match &unlocked.how {
            How::Jwe { algorithm, key } => {
                let origin = self.origins.get(*key).map_or("", String::as_str);
                format!("{algorithm} with {origin}")
            }
            how => how.to_string(),
        };
        tracing::info!(%blob, how, "layer unlocked");
        progress.tell(Event::Unlocked {
            blob: blob.clone(),
            how,
        });
        Arc::new(unlocked.key)
    }
}
