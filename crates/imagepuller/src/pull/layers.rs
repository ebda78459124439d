//! Layers from the network into the store, several at a time and each of them once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use layer_store::layer::Layer;
use layer_store::store::Store;
use layer_unpack::Unpacked;
use layer_unpack::blob::Expected;
use layer_unpack::caller::{Caller, Waiting};
use oci_image::digest::Digest;
use oci_image::manifest::Descriptor;
use oci_image::search::Image;
use registry_client::Blob;
use registry_client::registry::Registry;
use tokio::sync::Semaphore;

use super::blocking;
use super::sources::Sources;
use crate::error::Error;
use crate::progress::{Event, Progress};
use crate::received::{self, Received};

/// How many layers of one image are fetched at once: one fills the network while another fills a core.
const LAYERS_AT_ONCE: usize = 2;

/// How much larger layers commonly are unpacked.
const USUAL_GROWTH: u64 = 3;

/// What all pulls into one store share.
#[derive(Clone, Debug)]
pub struct Layers {
    pub store: Arc<Store>,
    pub progress: Progress,
    /// One for each layer that may be unpacked at a time, whoever asked for it: each costs buffers and threads.
    pub places: Arc<Semaphore>,
}

impl Layers {
    /// All layers of an image, lowest first.
    pub async fn fetch(&self, sources: &Sources, image: &Image) -> Result<Vec<Layer>, Error> {
        let _kept = self.make_room(image).await?;
        // The largest first: a large one that comes last would be waited for alone.
        let mut order: Vec<usize> = (0..image.layers.len()).collect();
        order.sort_by_key(|&at| Reverse(image.layers[at].0.size));
        let mut layers: Vec<(usize, Layer)> = stream::iter(order)
            .map(|at| async move {
                let (blob, diff_id) = &image.layers[at];
                Ok::<_, Error>((at, self.layer(sources, blob, diff_id).await?))
            })
            .buffer_unordered(LAYERS_AT_ONCE)
            .try_collect()
            .await?;
        layers.sort_by_key(|(at, _)| *at);
        Ok(layers.into_iter().map(|(_, layer)| layer).collect())
    }

    /// Compressed sizes are the least that the layers will need, so what does not fit is said before it is fetched, and
    /// layers that nobody uses make room for what does. Gives those of the image that are there already.
    async fn make_room(&self, image: &Image) -> Result<Vec<Layer>, Error> {
        // Once each, for images may have a layer twice.
        let layers: HashMap<_, _> = image
            .layers
            .iter()
            .map(|(blob, diff_id)| (diff_id.clone(), blob.size))
            .collect();
        let store = self.store.clone();
        blocking(move || {
            let mut kept = Vec::new();
            let mut missing_bytes = 0u64;
            for (diff_id, size) in layers {
                match store.layer(&diff_id) {
                    Some(layer) => kept.push(layer),
                    // Another pull is unpacking it, and has room for it or not.
                    None if store.flight(&diff_id).try_lock().is_err() => {}
                    None => missing_bytes = missing_bytes.saturating_add(size),
                }
            }
            store.make_room(missing_bytes, missing_bytes.saturating_mul(USUAL_GROWTH))?;
            Ok(kept)
        })
        .await
    }

    async fn layer(
        &self,
        sources: &Sources,
        blob: &Descriptor,
        diff_id: &Digest,
    ) -> Result<Layer, Error> {
        let flight = self.store.flight(diff_id);
        sources
            .first(|registry| {
                let flight = flight.clone();
                async move {
                    // Taken anew for each source: the thread of a failed attempt holds it until it has cleaned up.
                    let alone = flight.lock_owned().await;
                    let (store, wanted) = (self.store.clone(), diff_id.clone());
                    if let Some(layer) = blocking(move || Ok(store.layer(&wanted))).await? {
                        self.progress.tell(Event::Shared {
                            blob: blob.digest.clone(),
                            bytes: blob.size,
                        });
                        return Ok(layer);
                    }
                    self.fetch_layer(registry, blob, diff_id, alone).await
                }
            })
            .await
    }

    /// Fetches and unpacks a layer; `alone` is let go when nothing of the attempt is left.
    async fn fetch_layer(
        &self,
        registry: &Registry,
        blob: &Descriptor,
        diff_id: &Digest,
        alone: impl Send + 'static,
    ) -> Result<Layer, Error> {
        let started = Instant::now();
        let transfer = registry.blob(&blob.digest, blob.size).await?;
        let host = transfer.host().to_owned();
        // Only now: a registry that does not answer is not to keep the layers of others waiting.
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|error| Error::Internal(error.to_string()))?;
        self.progress.tell(Event::Started {
            blob: blob.digest.clone(),
            bytes: blob.size,
            host: host.clone(),
        });
        let expected = Expected {
            digest: blob.digest.clone(),
            size: blob.size,
        };
        let (sender, received) = received::channel();
        let (store, from, diff_id) = (self.store.clone(), host.clone(), diff_id.clone());
        let waiting = Waiting::default();
        let caller = waiting.caller();
        let unpack = blocking(move || {
            // Dropping this future does not end the thread at once, and until then nobody else is to begin.
            let _held = (alone, place);
            unpack(&store, received, &expected, &diff_id, from, &caller)
        });
        let (fetched, unpacked) =
            tokio::join!(self.transfer(transfer, sender, &blob.digest), unpack);
        // A transfer that broke off is the reason why the blob is too short, not the other way round; but it says nothing about
        // a full store.
        let (layer, unpacked) = match unpacked {
            Err(error) if error.is_local() => return Err(error),
            unpacked => fetched.and(unpacked)?,
        };
        drop(waiting);
        self.progress.tell(Event::Unpacked {
            blob: blob.digest.clone(),
            plain_bytes: unpacked.plain_bytes,
            entries: unpacked.entries,
        });
        tracing::info!(
            blob = %blob.digest, bytes = blob.size, plain_bytes = unpacked.plain_bytes, entries = unpacked.entries,
            ms = started.elapsed().as_millis(), "layer unpacked"
        );
        Ok(layer)
    }

    /// Hands a blob over to the thread that unpacks it, until one of the two ends.
    async fn transfer(
        &self,
        mut transfer: Blob<'_>,
        mut sender: received::Sender,
        digest: &Digest,
    ) -> Result<(), Error> {
        let mut received_bytes = 0;
        loop {
            // The other side may find an error, which is the one to report, while the registry is silent.
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
            self.progress.tell(Event::Received {
                blob: digest.clone(),
                received_bytes,
            });
        }
        let _ = sender.flush().await;
        Ok(())
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
    let unpacked = layer_unpack::unpack(received, expected, diff_id, root, caller);
    let unpacked = unpacked.map_err(|source| {
        if source.is_no_space() {
            return store.full().into();
        }
        Error::Layer {
            digest: expected.digest.clone(),
            host,
            source: Box::new(source),
        }
    })?;
    Ok((staging.publish(&unpacked)?, unpacked))
}
