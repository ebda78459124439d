//! One pull from beginning to end: configuration, sources, manifests, layers, mount.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::body;
use crate::bundle::Bundle;
use crate::digest::Digest;
use crate::error::{Error, chain};
use crate::layer::blob::{Expected, Received};
use crate::layer::caller::{Caller, Waiting};
use crate::layer::{self, Unpacked};
use crate::manifest::{self, Descriptor, Manifest};
use crate::mount;
use crate::platform::Platform;
use crate::reference::ImageReference;
use crate::registry::Registry;
use crate::settings::Settings;
use crate::source::{Source, host_of};
use crate::store::{Layer, Store};

/// How deep indexes may be nested; one level is common, two exist.
const MAX_INDEX_DEPTH: usize = 3;

/// How many layers are fetched at once: one fills the network while another fills a core.
const LAYERS_AT_ONCE: usize = 2;

/// How many pieces of a blob may wait for the thread that unpacks them.
const CHUNKS_IN_FLIGHT: usize = 16;

/// The slowest transfer of a layer that is waited for. Silence is noticed sooner; this ends a drip.
const MIN_BYTES_PER_SECOND: u64 = 16 << 10;

/// How long a small layer may take in any case.
const MIN_LAYER_TIME: Duration = Duration::from_secs(120);

/// Pulls images into one store.
#[derive(Debug)]
pub struct Puller {
    store: Arc<Store>,
    configuration: PathBuf,
    guest: Platform,
    /// Held from the look at a bundle to the mount in it: of two pulls into one bundle the second is to see the first.
    mounting: Arc<Mutex<()>>,
}

/// An image that is mounted.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// The digest of the manifest of this guest's platform.
    pub manifest: Digest,
}

/// What is left to fetch of an image whose manifests are verified.
struct Image {
    manifest: Digest,
    layers: Vec<(Descriptor, Digest)>,
}

impl Puller {
    /// A puller for a store; the configuration is read anew for every pull.
    pub fn new(store: Arc<Store>, configuration: PathBuf) -> Self {
        Self {
            store,
            configuration,
            guest: Platform::of_guest(),
            mounting: Arc::default(),
        }
    }

    /// Pulls an image and mounts it in a bundle. On an error nothing is mounted, nor when the future is dropped.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn pull(&self, image: &str, bundle: &str) -> Result<Pulled, Error> {
        let started = Instant::now();
        let bundle = Bundle::parse(bundle)?;
        let image = ImageReference::parse(image)?;
        let configuration = self.configuration.clone();
        let settings = blocking(move || Settings::load(&configuration)).await?;
        let (manifest, layers) = self.fetch_image(&image, &settings).await?;
        let fetched = started.elapsed();
        let store = self.store.clone();
        let count = layers.len();
        let mounting = self.mounting.clone();
        let mounted = blocking(move || {
            let _alone = mounting.lock().unwrap_or_else(PoisonError::into_inner);
            let rootfs = bundle.prepare()?;
            mount::overlay(&layers, store.container()?, rootfs)
        })
        .await?;
        let rootfs = mounted.keep();
        tracing::info!(
            %image, %manifest, layers = count, rootfs = %rootfs.display(),
            fetched_ms = fetched.as_millis(), total_ms = started.elapsed().as_millis(), "mounted"
        );
        Ok(Pulled { manifest })
    }

    async fn fetch_image(
        &self,
        image: &ImageReference,
        settings: &Settings,
    ) -> Result<(Digest, Vec<Layer>), Error> {
        let mut errors = Vec::new();
        for source in Source::order(image, settings)? {
            let name = source.to_string();
            let registry = Registry::new(source, image.repository(), settings);
            match self.fetch_from(&registry, image.digest()).await {
                Ok(pulled) => return Ok(pulled),
                Err(error) if error.is_local() => return Err(error),
                Err(error) => {
                    tracing::warn!(source = name, error = chain(&error), "source failed");
                    errors.push((name, error));
                }
            }
        }
        match errors.pop() {
            Some((_, error)) if errors.is_empty() => Err(error),
            Some(last) => {
                errors.push(last);
                Err(Error::Sources(errors))
            }
            None => Err(Error::Internal("an image without a source".to_owned())),
        }
    }

    async fn fetch_from(
        &self,
        registry: &Registry,
        digest: &Digest,
    ) -> Result<(Digest, Vec<Layer>), Error> {
        let image = self.resolve(registry, digest).await?;
        self.check_space(&image).await?;
        let layers = stream::iter(image.layers)
            .map(|(blob, diff_id)| self.layer(registry, blob, diff_id))
            .buffered(LAYERS_AT_ONCE)
            .try_collect()
            .await?;
        Ok((image.manifest, layers))
    }

    /// Follows the digests from the reference to the layers, each content hashed before it is read.
    async fn resolve(&self, registry: &Registry, digest: &Digest) -> Result<Image, Error> {
        let content = |what| {
            let host = registry.host();
            move |source| Error::Content {
                what,
                host,
                source: Box::new(source),
            }
        };
        let (mut digest, mut size) = (digest.clone(), None);
        for _ in 0..=MAX_INDEX_DEPTH {
            let text = registry
                .manifest(&digest)
                .await?
                .verify(&digest, size)
                .map_err(content("the manifest"))?;
            let broken = |what| {
                let digest = digest.clone();
                move |rule| Error::Manifest { what, digest, rule }
            };
            match Manifest::parse(&text).map_err(broken("manifest"))? {
                Manifest::Index(index) => {
                    let chosen = manifest::choose(&index, &self.guest).map_err(broken("index"))?;
                    size = Some(chosen.size);
                    digest = chosen.digest.clone();
                }
                Manifest::Image { config, layers } => {
                    let text = registry.config(&config.digest).await?;
                    let text = text
                        .verify(&config.digest, Some(config.size))
                        .map_err(content("the image configuration"))?;
                    let diff_ids = manifest::diff_ids(&text, &self.guest, layers.len());
                    let what = "image configuration";
                    let diff_ids = diff_ids.map_err(|rule| Error::Manifest {
                        what,
                        digest: config.digest,
                        rule,
                    })?;
                    return Ok(Image {
                        manifest: digest,
                        layers: layers.into_iter().zip(diff_ids).collect(),
                    });
                }
            }
        }
        Err(Error::Manifest {
            what: "index",
            digest,
            rule: format!("is nested more than {MAX_INDEX_DEPTH} levels deep"),
        })
    }

    /// Compressed sizes are the least that the layers will need, so what does not fit is said before it is fetched.
    async fn check_space(&self, image: &Image) -> Result<(), Error> {
        let layers: Vec<_> = image
            .layers
            .iter()
            .map(|(blob, diff_id)| (blob.size, diff_id.clone()))
            .collect();
        let store = self.store.clone();
        blocking(move || {
            let missing = layers
                .iter()
                .filter(|(_, diff_id)| store.layer(diff_id).is_none());
            let needed_bytes = missing.fold(0u64, |sum, (size, _)| sum.saturating_add(*size));
            let free_bytes = store.free_bytes()?;
            if needed_bytes > free_bytes {
                return Err(Error::StoreFull {
                    store: store.path().to_owned(),
                    needed_bytes,
                    free_bytes,
                });
            }
            Ok(())
        })
        .await
    }

    async fn layer(
        &self,
        registry: &Registry,
        blob: Descriptor,
        diff_id: Digest,
    ) -> Result<Layer, Error> {
        let alone = self.store.flight(&diff_id).lock_owned().await;
        let (store, wanted) = (self.store.clone(), diff_id.clone());
        if let Some(layer) = blocking(move || Ok(store.layer(&wanted))).await? {
            return Ok(layer);
        }
        let started = Instant::now();
        let answer = registry.blob(&blob.digest).await?;
        let host = host_of(&answer.url);
        let expected = Expected {
            digest: blob.digest.clone(),
            size: blob.size,
        };
        let (sender, receiver) = mpsc::channel(CHUNKS_IN_FLIGHT);
        let (store, from) = (self.store.clone(), host.clone());
        let waiting = Waiting::default();
        let caller = waiting.caller();
        let unpack = blocking(move || {
            // Dropping this future does not end the thread at once, and until then nobody else is to begin.
            let _alone = alone;
            let received = Received::new(receiver);
            unpack(&store, received, &expected, &diff_id, from, &caller)
        });
        let (fetched, unpacked) =
            tokio::join!(fetch(answer.response, sender, &host, blob.size), unpack);
        // A transfer that broke off is the reason why the blob is too short, not the other way round.
        fetched?;
        let (layer, unpacked) = unpacked?;
        drop(waiting);
        tracing::info!(
            blob = %blob.digest, bytes = blob.size, plain_bytes = unpacked.plain_bytes, entries = unpacked.entries,
            ms = started.elapsed().as_millis(), "layer unpacked"
        );
        Ok(layer)
    }
}

/// Unpacks what arrives and gives it a name only after it was verified.
fn unpack(
    store: &Store,
    received: Received,
    expected: &Expected,
    diff_id: &Digest,
    host: String,
    caller: &Caller,
) -> Result<(Layer, Unpacked), Error> {
    let (staging, root) = store.stage(diff_id)?;
    let unpacked = layer::unpack(received, expected, diff_id, root, caller);
    let unpacked = unpacked.map_err(|source| Error::Layer {
        digest: expected.digest.clone(),
        host,
        source: Box::new(source),
    })?;
    Ok((staging.publish(&unpacked)?, unpacked))
}

/// Hands a body over to the thread that unpacks it, until one of the two ends.
async fn fetch(
    mut response: reqwest::Response,
    sender: mpsc::Sender<bytes::Bytes>,
    host: &str,
    size: u64,
) -> Result<(), Error> {
    let transfer = async {
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| body::cut_off(host, &error))?
        {
            if sender.send(chunk).await.is_err() {
                // The other side found an error, and it is the one to report.
                break;
            }
        }
        Ok(())
    };
    let patience = MIN_LAYER_TIME + Duration::from_secs(size / MIN_BYTES_PER_SECOND);
    tokio::time::timeout(patience, transfer)
        .await
        .unwrap_or_else(|_| {
            let reason = format!(
                "a layer of {size} bytes was not complete after {} s",
                patience.as_secs()
            );
            Err(Error::Unreachable {
                host: host.to_owned(),
                via: String::new(),
                reason,
            })
        })
}

/// Runs file system work where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}
