//! Brings layers from the network into the store, several at a time and each of them once.
//!
//! The store names a layer by the digest of its plain bytes. An encrypted layer is named by a value
//! that only owners of its key can compute, so nobody gets such a layer by writing its digest into
//! an image.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::Either;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use keys::LayerKey;
use layer_store::layer::Layer;
use layer_store::name::LayerName;
use layer_store::store::Store;
use oci_image::digest::Digest;
use oci_image::manifest::Descriptor;
use oci_image::search::Image;
use registry_client::registry::Registry;
use tokio::sync::OwnedMutexGuard;

use super::ahead::{Ahead, Begun};
use super::brought;
use super::budget::{Allowance, Budget, LANES, LAYERS_AT_ONCE, MAX_READERS, is_small};
use super::flights::Flights;
use super::reading::{Arrived, Reading};
use super::sources::Sources;
use super::unlock::Keys;
use crate::blocking::blocking;
use crate::error::Error;
use crate::watch::{LayerWatch, Watch};

/// How much larger layers commonly are unpacked.
const USUAL_GROWTH: u64 = 3;

/// What all pulls into one store share.
#[derive(Clone, Debug)]
pub struct Layers {
    pub store: Arc<Store>,
    pub flights: Flights,
    pub budget: Budget,
    pub ahead: Ahead,
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
        watch: &Watch,
    ) -> Result<Vec<Layer>, Error> {
        let wanted = ImageLayer::all(image, keys)?;
        let names: Vec<LayerName> = wanted.iter().map(|layer| layer.name.clone()).collect();
        let wanted = ImageLayer::each_once(wanted);
        let (_kept, missing) = self.make_room(&wanted).await?;
        let fetched = self.fetch_all(sources, &wanted, watch).await;
        if let Err(Error::Store(layer_store::Error::Full { .. })) = &fetched {
            brought::give_back(missing, &self.store, &self.flights).await;
        }
        let fetched = fetched?;
        // Each name is that of a layer that was wanted.
        Ok(names.iter().map(|name| fetched[name].clone()).collect())
    }

    /// Begins to read small blobs of an image whose configuration is still on its way.
    pub async fn begin(&self, source: Arc<Registry>, expected: &[Descriptor]) -> Option<Begun> {
        let shared = (self.store.clone(), self.flights.clone(), self.budget.clone());
        self.ahead.begin(source, expected, shared).await
    }

    async fn fetch_all(
        &self,
        sources: &Arc<Sources>,
        wanted: &[ImageLayer],
        watch: &Watch,
    ) -> Result<HashMap<LayerName, Layer>, Error> {
        let allowance = Arc::new(self.budget.allowance());
        // The largest first: a large one that comes last would be waited for alone.
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|&at| Reverse(wanted[at].blob.size));
        // The small ones do not stand behind the large ones.
        let is_ahead = |&at: &usize| is_small(wanted[at].blob.size);
        let (small, others): (Vec<_>, Vec<_>) = order.into_iter().partition(is_ahead);
        let bring = |at: usize| {
            let (wanted, allowance) = (&wanted[at], &allowance);
            let fetch = move |watch: Arc<LayerWatch>| {
                let (layers, sources) = (self.clone(), sources.clone());
                let (wanted, allowance) = (wanted.clone(), allowance.clone());
                async move { layers.layer(&sources, &wanted, &allowance, &watch).await }
            };
            async move {
                let layer = self.flights.layer(wanted, watch, fetch).await?;
                Ok::<_, Error>((wanted.name.clone(), layer))
            }
        };
        let small = stream::iter(small).map(bring).buffer_unordered(MAX_READERS);
        let others = stream::iter(others).map(bring).buffer_unordered(LAYERS_AT_ONCE + LANES);
        stream::select(small, others).try_collect().await
    }

    /// Waits until nothing is left of the flights that nobody wants any more. Who calls this sets
    /// the limit to it.
    pub async fn quiet(&self) {
        for name in self.store.in_flight() {
            if !self.flights.has(&name) {
                drop(self.store.flight(&name).lock_owned().await);
            }
        }
    }

    /// All layers of an image, lowest first, if each of them is in the store.
    pub async fn stored(
        &self,
        image: &Image,
        keys: &Keys,
        watch: &Watch,
    ) -> Result<Option<Vec<Layer>>, Error> {
        let wanted = ImageLayer::all(image, keys)?;
        let names: Vec<LayerName> = wanted.iter().map(|layer| layer.name.clone()).collect();
        let store = self.store.clone();
        let found = blocking(move || {
            let layers = names.iter().map(|name| store.layer(name));
            Ok(layers.collect::<Option<Vec<_>>>())
        });
        let found = found.await?;
        if found.is_some() {
            for layer in ImageLayer::each_once(wanted) {
                watch.layer(&layer.blob).shared();
            }
        }
        Ok(found)
    }

    /// Makes room by removing unused layers, and refuses an image that cannot fit before it is
    /// fetched: layers need at least their compressed size. Gives the layers of the image that are
    /// in the store already, and the names of the others.
    async fn make_room(
        &self,
        wanted: &[ImageLayer],
    ) -> Result<(Vec<Layer>, Vec<LayerName>), Error> {
        let layers: Vec<_> =
            wanted.iter().map(|layer| (layer.name.clone(), layer.blob.size)).collect();
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
        allowance: &Allowance,
        watch: &LayerWatch,
    ) -> Result<Arrived<OwnedMutexGuard<()>>, Error> {
        let flight = self.store.flight(&wanted.name);
        sources
            .first(|registry| {
                let flight = flight.clone();
                async move {
                    // Taken anew for each source: the thread of a failed attempt holds it until it
                    // has cleaned up.
                    let held = flight.lock_owned().await;
                    let (store, name) = (self.store.clone(), wanted.name.clone());
                    let found = blocking(move || match store.layer(&name) {
                        Some(layer) => Ok(Either::Left(Arrived { layer, held })),
                        None => Ok(Either::Right(held)),
                    });
                    let alone = match found.await? {
                        Either::Right(alone) => alone,
                        Either::Left(arrived) => {
                            watch.shared();
                            return Ok(arrived);
                        }
                    };
                    let reading = Reading { registry, wanted, allowance, watch };
                    reading.fetch(&self.store, &self.ahead, alone).await
                }
            })
            .await
    }
}

/// How many layers there are to get for an image, and their compressed bytes. What is in it twice
/// comes once.
pub fn extent(image: &Image) -> (usize, u64) {
    let mut seen = HashSet::new();
    let is_new = |(blob, diff_id): &&(Descriptor, Digest)| {
        let is_encrypted = blob.encryption().is_some();
        // Of the same content: encrypted twice it has two keys, and so two names in the store.
        seen.insert(if is_encrypted { &blob.digest } else { diff_id }.clone())
    };
    let sizes = image.layers.iter().filter(is_new).map(|(blob, _)| blob.size);
    sizes.fold((0, 0), |(layers, bytes): (usize, u64), size| {
        (layers + 1, bytes.saturating_add(size))
    })
}

/// A layer of an image.
#[derive(Clone)]
pub struct ImageLayer {
    pub blob: Descriptor,
    pub diff_id: Digest,
    pub key: Option<Arc<LayerKey>>,
    /// What it is called in the store.
    pub name: LayerName,
}

impl ImageLayer {
    fn all(image: &Image, keys: &Keys) -> Result<Vec<Self>, Error> {
        let layers = image.layers.iter().zip(keys);
        let layers = layers.map(|((blob, diff_id), key)| Self::new(blob, diff_id, key.as_ref()));
        layers.collect()
    }

    /// Without those that are there before: an image may have a layer twice.
    fn each_once(mut layers: Vec<Self>) -> Vec<Self> {
        let mut seen = HashSet::new();
        layers.retain(|layer| seen.insert(layer.name.clone()));
        layers
    }

    fn new(
        blob: &Descriptor,
        diff_id: &Digest,
        key: Option<&Arc<LayerKey>>,
    ) -> Result<Self, Error> {
        // Whatever went wrong before: what is encrypted is not taken for plain here.
        if blob.encryption().is_some() != key.is_some() {
            return Err(Error::Internal("an encrypted layer without a key".to_owned()));
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
