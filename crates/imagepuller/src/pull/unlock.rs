//! Finds the keys of encrypted layers, for exactly the manifest that is pulled, and on every pull.
//!
//! It does so even if all layers are in the store already: an image may be used by those who have
//! its keys, not by those whose neighbour had them.
//!
//! The author of an image, or of a document, may want to keep the guest busy or to learn about
//! other secrets by naming them. So operations are counted, fetching has a deadline, and an error
//! says nothing about a fetched secret that is no key: not its length and not its kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jose::PrivateKey;
use oci_image::search::Image;
use ocicrypt::{Effort, Encryption, How, LayerKey, Unlocked, UnwrapError};
use pull_route::Settings;
use puller_config::{DecryptionKey, RegistryHost, ResourceUri};
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use super::broker::Secrets;
use crate::blocking::blocking;
use crate::error::{Error, chain};
use crate::progress::{Event, Progress};

/// How many private keys may be tried on how many recipients, for one image. With one key it is
/// enough for as many recipients, of all layers together.
const MAX_OPERATIONS: u32 = 4096;

/// How many keys with passwords are read for one image; each may cost a second.
const MAX_PASSWORDS: usize = 16;

/// How many key encryption keys one image may name. One is common, and each costs a request.
const MAX_KEY_ENCRYPTION_KEYS: usize = 8;

/// How many packets of one image go to a data hub. One for each layer is common, and each may cost
/// the hub a request.
const MAX_UNWRAPPED: usize = 512;

/// The only length of a key encryption key, in bytes.
const KEY_ENCRYPTION_KEY_BYTES: usize = 32;

/// How long may be waited for everything that has to be fetched for one image.
const FETCH_TIME: Duration = Duration::from_secs(90);

/// The plugin that hands out what was put there, and makes nothing up.
const RESOURCE: &str = "resource";

/// What a fetched secret is called if it is not the key that a document or an image names.
const NO_PRIVATE_KEY: &str = "is no private key that can be used";
const NO_KEY_ENCRYPTION_KEY: &str = "is no key of 32 bytes";

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
    secrets: &Secrets<'_>,
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
            let encryption = Arc::new(encryption);
            locked.push(LockedLayer {
                at,
                encryption,
                refused: None,
            });
        }
    }
    let mut work = Unlocking {
        image,
        progress,
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
    work.try_references(settings, name, secrets, deadline)
        .await?;
    let resources = settings.resources();
    let is_always = resources.is_some_and(|resources| resources.unwrap_always);
    if !is_always {
        work.try_packets(settings, secrets, deadline).await?;
    }
    if resources.is_some_and(|resources| !resources.unwrap.is_empty()) {
        let hub = timeout_at(deadline, work.try_hub(settings, secrets, is_always));
        if hub.await.is_err() {
            work.give_up_fetching();
        }
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

/// The resource that a packet names as its key, or why it is none. A plugin may generate something
/// from parameters that the image's author chose.
fn resource(kid: &str) -> Result<ResourceUri, String> {
    match ResourceUri::parse(kid) {
        Ok(uri) if uri.plugin() == RESOURCE => Ok(uri),
        Ok(uri) => Err(format!("the key {uri} is no resource")),
        Err(error) => Err(format!("the key that an image names: {error}")),
    }
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

/// A key as a document holds it.
struct DocumentKey {
    key: Zeroizing<Vec<u8>>,
    password: Option<Zeroizing<Vec<u8>>>,
    /// Where that is.
    words: String,
}

/// A private key, and where it came from.
type PlacedKey = (PrivateKey, String);

struct Unlocking<'a> {
    image: &'a Image,
    progress: &'a Progress,
    keys: Keys,
    locked: Vec<LockedLayer>,
    effort: Counted,
    /// Why there are no more keys.
    problems: Vec<String>,
}

impl Unlocking<'_> {
    /// Whether a private key may help.
    fn wants_keys(&self) -> bool {
        self.locked
            .iter()
            .any(|locked| locked.encryption.uses_keys())
    }

    /// The keys that the documents hold themselves: those without a password together, then the
    /// others, one by one.
    async fn try_given(&mut self, settings: &Settings, name: Name<'_>) -> Result<(), Error> {
        let mut open = Vec::new();
        let mut closed = Vec::new();
        for placed in settings.decryption_keys(name.registry, name.repository) {
            if let DecryptionKey::Given { key, password } = placed.key {
                let words = placed.to_string();
                let given = DocumentKey {
                    key: key.clone(),
                    password: password.clone(),
                    words,
                };
                match password {
                    None => open.push(given),
                    Some(_) => closed.push(given),
                }
            }
        }
        let mut candidates = Vec::new();
        if self.wants_keys() {
            for given in open {
                candidates.extend(self.read(given).await?);
            }
        }
        // Also without any key: it says what would open the layers.
        self.attempt(candidates, BTreeMap::new()).await?;
        for (at, given) in closed.into_iter().enumerate() {
            if !self.wants_keys() {
                return Ok(());
            }
            if at == MAX_PASSWORDS {
                let problem = format!("of the keys with passwords only {MAX_PASSWORDS} are tried");
                self.problems.push(problem);
                return Ok(());
            }
            if let Some(candidate) = self.read(given).await? {
                self.attempt(vec![candidate], BTreeMap::new()).await?;
            }
        }
        Ok(())
    }

    /// Reads a key that a document holds. Where it cannot be, another one may do; if none does,
    /// this is part of the reason.
    async fn read(&mut self, given: DocumentKey) -> Result<Option<PlacedKey>, Error> {
        let DocumentKey {
            key,
            password,
            words,
        } = given;
        let read = blocking(move || {
            let password = password.as_ref().map(|password| password.as_slice());
            Ok(PrivateKey::read(&key, password))
        });
        Ok(match read.await? {
            Ok(key) => Some((key, words)),
            Err(error) => {
                self.problems.push(format!("{words}: {error}"));
                None
            }
        })
    }

    /// The private keys that the documents name, as long as one may help.
    async fn try_references(
        &mut self,
        settings: &Settings,
        name: Name<'_>,
        secrets: &Secrets<'_>,
        deadline: Instant,
    ) -> Result<(), Error> {
        for placed in settings.decryption_keys(name.registry, name.repository) {
            let DecryptionKey::Reference(reference) = placed.key else {
                continue;
            };
            if !self.wants_keys() {
                return Ok(());
            }
            let Ok(fetched) = timeout_at(deadline, secrets.fetch(reference, settings)).await else {
                self.give_up_fetching();
                return Ok(());
            };
            let text = match fetched {
                Ok(text) => text,
                Err(error) => {
                    self.problems.push(chain(&error));
                    continue;
                }
            };
            let words = format!("the key {reference}");
            match blocking(move || Ok(PrivateKey::read(&text, None).ok())).await? {
                Some(key) => self.attempt(vec![(key, words)], BTreeMap::new()).await?,
                None => {
                    let unfit = secrets.withhold(&reference.to_string(), NO_PRIVATE_KEY);
                    self.problems.push(unfit.to_string());
                }
            }
        }
        Ok(())
    }

    /// The keys that the layers' own packets name.
    async fn try_packets(
        &mut self,
        settings: &Settings,
        secrets: &Secrets<'_>,
        deadline: Instant,
    ) -> Result<(), Error> {
        let packets = self
            .locked
            .iter()
            .flat_map(|locked| locked.encryption.packets());
        let kids: BTreeSet<String> = packets.map(|packet| packet.kid().to_owned()).collect();
        if kids.is_empty() {
            return Ok(());
        }
        if kids.len() > MAX_KEY_ENCRYPTION_KEYS {
            let problem = format!(
                "the image names {} keys, and {MAX_KEY_ENCRYPTION_KEYS} are fetched",
                kids.len()
            );
            self.problems.push(problem);
        }
        let mut wrapping = BTreeMap::new();
        for kid in kids.into_iter().take(MAX_KEY_ENCRYPTION_KEYS) {
            let uri = match resource(&kid) {
                Ok(uri) => uri,
                Err(problem) => {
                    self.problems.push(problem);
                    continue;
                }
            };
            match timeout_at(deadline, secrets.resource(&uri, settings)).await {
                Err(_) => {
                    self.give_up_fetching();
                    break;
                }
                Ok(Err(error)) => self.problems.push(chain(&error)),
                Ok(Ok(key)) if key.len() == KEY_ENCRYPTION_KEY_BYTES => {
                    wrapping.insert(kid, key);
                }
                Ok(Ok(_)) => {
                    let unfit = secrets.withhold(&uri.to_string(), NO_KEY_ENCRYPTION_KEY);
                    self.problems.push(unfit.to_string());
                }
            }
        }
        self.attempt(Vec::new(), wrapping).await
    }

    /// What a data hub unwraps. The HMAC of the layer and its diff ID judge what comes back.
    async fn try_hub(&mut self, settings: &Settings, secrets: &Secrets<'_>, all: bool) {
        let mut asked = 0;
        let mut at = 0;
        while let Some(locked) = self.locked.get(at) {
            let encryption = locked.encryption.clone();
            let blob = &self.image.layers[locked.at].0.digest;
            let mut opened = None;
            for (entry, packet, kid) in encryption.packets_for_hub(all) {
                if let Some(Err(problem)) = kid.map(resource) {
                    self.problems.push(problem);
                    continue;
                }
                if asked == MAX_UNWRAPPED {
                    let problem = format!("of the image's packets only {asked} go to the hub");
                    return self.problems.push(problem);
                }
                asked += 1;
                let name = format!("packet {entry} of layer {blob}");
                let options = match secrets.unwrap(packet, &name, settings).await {
                    Ok(options) => options,
                    Err(error) => {
                        self.problems.push(match error {
                            Error::Withheld { .. } => error.to_string(),
                            error => format!("{name}: {}", chain(&error)),
                        });
                        continue;
                    }
                };
                match encryption.unwrapped_by_hub(&options) {
                    Ok(unlocked) => {
                        opened = Some(unlocked);
                        break;
                    }
                    Err(error) => {
                        let why = format!("what the hub unwrapped are no usable options: {error}");
                        self.problems
                            .push(secrets.withhold(&name, &why).to_string());
                    }
                }
            }
            match opened {
                Some(unlocked) => {
                    let layer = self.locked.remove(at).at;
                    self.keep(layer, unlocked, &[]);
                }
                None => at += 1,
            }
        }
    }

    fn give_up_fetching(&mut self) {
        let problem = format!(
            "what has to be fetched was not there after {} s",
            FETCH_TIME.as_secs()
        );
        self.problems.push(problem);
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
        let how = match &unlocked.how {
            How::Jwe { algorithm, key } => {
                let origin = origins.get(*key).map_or("", String::as_str);
                format!("{algorithm} with {origin}")
            }
            how => how.to_string(),
        };
        tracing::info!(%blob, how, "layer unlocked");
        self.progress.tell(Event::Unlocked {
            blob: blob.clone(),
            how,
        });
        self.keys[at] = Some(Arc::new(unlocked.key));
    }
}
