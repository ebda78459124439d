//! Brings layers from the network into the store, several at a time and each of them once.
//!
//! The store names a layer by the digest of its plain bytes. An encrypted layer is named by a value
//! that only owners of its key can compute, so nobody gets such a layer by writing its digest into
//! an image.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use layer_store::layer::Layer;
use layer_store::name::LayerName;
use layer_store::store::Store;
use layer_unpack::Unpacked;
use layer_unpack::blob::Expected;
use layer_unpack::caller::{CallerGuard, CallerWatch};
use oci_image::digest::Digest;
use oci_image::manifest::Descriptor;
use oci_image::search::Image;
use ocicrypt::LayerKey;
use registry_client::Blob;
use registry_client::registry::Registry;
use tokio::sync::Semaphore;

use super::brought;
use super::flights::Flights;
use super::sources::Sources;
use super::unlock::Keys;
use crate::blocking::blocking;
use crate::error::Error;
use crate::progress::{Event, Progress};
use crate::received::{self, Received};

/// How much larger layers commonly are unpacked.
const USUAL_GROWTH: u64 = 3;

/// What all pulls into one store share.
#[derive(Clone, Debug)]
pub struct Layers {
    pub store: Arc<Store>,
    pub flights: Flights,
    /// How many layers of one image are fetched at once.
    pub at_once: usize,
    /// One for each layer that may be unpacked at a time, for all pulls together: each costs
    /// buffers and threads.
    pub places: Arc<Semaphore>,
    /// How many places there are.
    pub max_places: u32,
}

impl Layers {
    /// All layers of an image, lowest first, with the keys of those that are encrypted. A layer
    /// that another pull is bringing is waited for. Where the layers do not fit, the store has what
    /// it had before.
    pub async fn fetch(
        &self,
        sources: &Arc<Sources>,
        image: &Image,
        keys: &Keys,
        progress: &Progress,
    ) -> Result<Vec<Layer>, Error> {
        let wanted = ImageLayer::all(image, keys)?;
        let (_kept, missing) = self.make_room(&wanted).await?;
        let fetched = self.fetch_all(sources, &wanted, progress).await;
        if let Err(Error::Store(layer_store::Error::Full { .. })) = &fetched {
            brought::give_back(missing, &self.store, &self.flights).await;
        }
        fetched
    }

    async fn fetch_all(
        &self,
        sources: &Arc<Sources>,
        wanted: &[ImageLayer],
        progress: &Progress,
    ) -> Result<Vec<Layer>, Error> {
        // The largest first: a large one that comes last would be waited for alone.
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|&at| Reverse(wanted[at].blob.size));
        let mut layers: Vec<(usize, Layer)> = stream::iter(order)
            .map(|at| async move {
                let wanted = &wanted[at];
                let fetch = |progress| {
                    let (layers, sources) = (self.clone(), sources.clone());
                    let wanted = wanted.clone();
                    async move { layers.layer(&sources, &wanted, &progress).await }
                };
                let layer = self.flights.layer(&wanted.name, progress, fetch).await?;
                Ok::<_, Error>((at, layer))
            })
            .buffer_unordered(sources.layers_at_once().unwrap_or(self.at_once))
            .try_collect()
            .await?;
        layers.sort_by_key(|(at, _)| *at);
        Ok(layers.into_iter().map(|(_, layer)| layer).collect())
    }

    /// Waits until no layer is being unpacked.
    pub async fn quiet(&self) {
        let _all = self.places.acquire_many(self.max_places).await;
    }

    /// All layers of an image, lowest first, if each of them is in the store.
    pub async fn stored(
        &self,
        image: &Image,
        keys: &Keys,
        progress: &Progress,
    ) -> Result<Option<Vec<Layer>>, Error> {
        let wanted = ImageLayer::all(image, keys)?;
        let names: Vec<LayerName> = wanted.iter().map(|layer| layer.name.clone()).collect();
        let store = self.store.clone();
        let found = blocking(move || {
            let layers = names.iter().map(|name| store.layer(name));
            Ok(layers.collect::<Option<Vec<_>>>())
        });
        let found = found.await?;
        for layer in wanted.iter().filter(|_| found.is_some()) {
            progress.tell(Event::Shared {
                blob: layer.blob.digest.clone(),
                bytes: layer.blob.size,
            });
        }
        Ok(found)
    }

    /// Makes room by removing unused layers, and refuses an image that cannot fit before it is
    /// fetched: layers need at least their compressed size. Gives the layers of the image that are
    /// in the store already, and the
    /// names of the others.
    async fn make_room(
        &self,
        wanted: &[ImageLayer],
    ) -> Result<(Vec<Layer>, Vec<LayerName>), Error> {
        // Once each, for images may have a layer twice.
        let layers: HashMap<_, _> = wanted
            .iter()
            .map(|layer| (layer.name.clone(), layer.blob.size))
            .collect();
        let store = self.store.clone();
        blocking(move || {
            let (mut kept, mut missing) = (Vec::new(), Vec::new());
            let mut missing_bytes = 0u64;
            for (name, size) in layers {
                if let Some(layer) = store.layer(&name) {
                    kept.push(layer);
                    continue;
                }
                // Otherwise another pull is unpacking it, and has room for it or not.
                if store.flight(&name).try_lock().is_ok() {
                    missing_bytes = missing_bytes.saturating_add(size);
                }
                missing.push(name);
            }
            store.make_room(missing_bytes, missing_bytes.saturating_mul(USUAL_GROWTH))?;
            Ok((kept, missing))
        })
        .await
    }

    async fn layer(
        &self,
        sources: &Sources,
        wanted: &ImageLayer,
        progress: &Progress,
    ) -> Result<Layer, Error> {
        let flight = self.store.flight(&wanted.name);
        sources
            .first(|registry| {
                let flight = flight.clone();
                async move {
                    // Taken anew for each source: the thread of a failed attempt holds it until it
                    // has cleaned up.
                    let alone = flight.lock_owned().await;
                    let (store, name) = (self.store.clone(), wanted.name.clone());
                    if let Some(layer) = blocking(move || Ok(store.layer(&name))).await? {
                        progress.tell(Event::Shared {
                            blob: wanted.blob.digest.clone(),
                            bytes: wanted.blob.size,
                        });
                        return Ok(layer);
                    }
                    self.fetch_layer(registry, wanted, progress, alone).await
                }
            })
            .await
    }

    /// Fetches and unpacks a layer; `alone` is let go when nothing of the attempt is left.
    async fn fetch_layer(
        &self,
        registry: &Registry,
        wanted: &ImageLayer,
        progress: &Progress,
        alone: impl Send + 'static,
    ) -> Result<Layer, Error> {
        let started = Instant::now();
        let blob = &wanted.blob;
        let transfer = registry.blob(&blob.digest, blob.size).await?;
        let host = transfer.host().to_owned();
        // Only now: a registry that does not answer is not to keep the layers of others waiting.
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|error| Error::Internal(error.to_string()))?;
        progress.tell(Event::Started {
            blob: blob.digest.clone(),
            bytes: blob.size,
            host: host.clone(),
        });
        let job = UnpackJob {
            expected: Expected {
                digest: blob.digest.clone(),
                size: blob.size,
            },
            name: wanted.name.clone(),
            diff_id: wanted.diff_id.clone(),
            key: wanted.key.clone(),
            host: host.clone(),
        };
        let (sender, received) = received::channel();
        let store = self.store.clone();
        let waiting = CallerGuard::default();
        let caller = waiting.watch();
        let unpack = blocking(move || {
            // Dropping this future does not end the thread at once. Until it has ended, no other
            // attempt may begin.
            let _held = (alone, place);
            job.unpack(&store, received, &caller)
        });
        let (fetched, unpacked) =
            tokio::join!(hand_over(transfer, sender, &blob.digest, progress), unpack);
        // A transfer that broke off is the reason why the blob is too short, not the other way
        // round; but it says nothing about a full store.
        let (layer, unpacked) = match unpacked {
            Err(error) if error.is_local() => return Err(error),
            unpacked => fetched.and(unpacked)?,
        };
        drop(waiting);
        progress.tell(Event::Unpacked {
            blob: blob.digest.clone(),
            plain_bytes: unpacked.plain_bytes,
            entries: unpacked.entries,
        });
        tracing::info!(
            blob = %blob.digest, bytes = blob.size,
            plain_bytes = unpacked.plain_bytes, entries = unpacked.entries,
            ms = started.elapsed().as_millis(), "layer unpacked"
        );
        Ok(layer)
    }
}

/// Hands a blob over to the thread that unpacks it, until one of the two ends.
async fn hand_over(
    mut transfer: Blob<'_>,
    mut sender: received::Sender,
    digest: &Digest,
    progress: &Progress,
) -> Result<(), Error> {
    let mut received_bytes = 0;
    loop {
        // The other side may find an error, which is the one to report, while the registry is
        // silent.
        let chunk = tokio::select! {
            chunk = transfer.next() => chunk?,
            () = sender.closed() => return Ok(()),
        };
        let Some(chunk) = chunk else {
            break;
        };
        received_bytes += chunk.len() as u64;
        if sender.send(chunk).await.is_err() {
            return Ok(());
        }
        progress.tell(Event::Received {
            blob: digest.clone(),
            received_bytes,
        });
    }
    let _ = sender.flush().await;
    Ok(())
}

/// A layer of an image.
#[derive(Clone)]
struct ImageLayer {
    blob: Descriptor,
    diff_id: Digest,
    key: Option<Arc<LayerKey>>,
    /// What it is called in the store.
    name: LayerName,
}

impl ImageLayer {
    fn all(image: &Image, keys: &Keys) -> Result<Vec<Self>, Error> {
        let layers = image.layers.iter().zip(keys);
        let layers = layers.map(|((blob, diff_id), key)| Self::new(blob, diff_id, key.as_ref()));
        layers.collect()
    }

    fn new(
        blob: &Descriptor,
        diff_id: &Digest,
        key: Option<&Arc<LayerKey>>,
    ) -> Result<Self, Error> {
        // Whatever went wrong before: what is encrypted is not taken for plain here.
        if blob.encryption().is_some() != key.is_some() {
            return Err(Error::Internal(
                "an encrypted layer without a key".to_owned(),
            ));
        }
        Ok(Self {
            blob: blob.clone(),
            diff_id: diff_id.clone(),
            key: key.cloned(),
            name: key.map_or_else(
                || LayerName::Plain(diff_id.clone()),
                |key| LayerName::Keyed(key.tag(diff_id)),
            ),
        })
    }
}

/// What the thread that unpacks has to know.
struct UnpackJob {
    expected: Expected,
    name: LayerName,
    diff_id: Digest,
    key: Option<Arc<LayerKey>>,
    host: String,
}

impl UnpackJob {
    /// Unpacks what arrives and gives it a name only after it was verified.
    fn unpack(
        self,
        store: &Store,
        received: Received,
        caller: &CallerWatch,
    ) -> Result<(Layer, Unpacked), Error> {
        let (staging, root) = store.stage(&self.name)?;
        let unpacked = layer_unpack::unpack(
            received,
            &self.expected,
            self.key.as_deref(),
            &self.diff_id,
            root,
            caller,
        );
        let unpacked = unpacked.map_err(|source| {
            if source.is_no_space() {
                return store.full().into();
            }
            Error::Layer {
                digest: self.expected.digest,
                host: self.host,
                source: Box::new(source),
            }
        })?;
        Ok((staging.publish(&unpacked)?, unpacked))
    }
}
