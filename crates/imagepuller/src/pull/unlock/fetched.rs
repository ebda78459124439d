//! The keys that are fetched: those that the documents name, those that the layers' own packets
//! name, and what a data hub unwraps.

use std::collections::{BTreeMap, BTreeSet};

use keys::PrivateKey;
use pull_route::Settings;
use registry_config::{DecryptionKey, ResourceUri};
use tokio::time::{Instant, timeout_at};

use super::{FETCH_TIME, Name, Unlocking};
use crate::blocking::blocking;
use crate::error::{Error, chain};
use crate::pull::secrets::Secrets;

/// How many key encryption keys one image may name. One is common, and each costs a request.
const MAX_KEY_ENCRYPTION_KEYS: usize = 8;

/// How many packets of one image go to a data hub. One for each layer is common, and each may cost
/// the hub a request.
const MAX_UNWRAPPED: usize = 512;

/// The only length of a key encryption key, in bytes.
const KEY_ENCRYPTION_KEY_BYTES: usize = 32;

/// The plugin that hands out what was put there, and makes nothing up.
const RESOURCE: &str = "resource";

/// What a fetched secret is called if it is not the key that a document or an image names.
const NO_PRIVATE_KEY: &str = "is no private key that can be used";
const NO_KEY_ENCRYPTION_KEY: &str = "is no key of 32 bytes";

impl Unlocking<'_> {
    /// The private keys that the documents name, as long as one may help.
    pub(super) async fn try_references(
        &mut self,
        settings: &Settings,
        name: Name<'_>,
        secrets: &Secrets,
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
    pub(super) async fn try_packets(
        &mut self,
        settings: &Settings,
        secrets: &Secrets,
        deadline: Instant,
    ) -> Result<(), Error> {
        let packets = self.locked.iter().flat_map(|locked| locked.encryption.packets());
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
            match timeout_at(deadline, secrets.fetch(&uri, settings)).await {
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
    pub(super) async fn try_hub(&mut self, settings: &Settings, secrets: &Secrets) {
        let mut asked = 0;
        let mut at = 0;
        while let Some(locked) = self.locked.get(at) {
            let encryption = locked.encryption.clone();
            let blob = &self.image.layers[locked.at].0.digest;
            let mut opened = None;
            for (entry, packet, kid) in encryption.packets_for_hub() {
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
                        self.problems.push(secrets.withhold(&name, &why).to_string());
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

    pub(super) fn give_up_fetching(&mut self) {
        let problem =
            format!("what has to be fetched was not there after {} s", FETCH_TIME.as_secs());
        self.problems.push(problem);
    }
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
