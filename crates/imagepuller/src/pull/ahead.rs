//! Small blobs that are read while the configuration of their image is on its way: the manifest
//! names them already. What they unpack to, and under which name, only the configuration tells.
//!
//! Nothing is read here that the store may have, for a layer is known there by its plain bytes, and
//! nothing that another pull may be bringing: there is no layer in the store, none on its way to
//! it, and nothing is here of another pull. A pull that begins a layer later finds its blob here,
//! if it would have asked the same registry for it: nobody waits for another one, and what another
//! pull was given is held to its digest first. An image with encrypted layers waits for its keys,
//! which may take long, and keeps no bytes meanwhile. Nothing at all is unpacked here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use layer_store::store::Store;
use oci_image::digest::Digest;
use oci_image::manifest::Descriptor;
use registry_client::LastFailure;
use registry_client::registry::Registry;
use tokio::task::JoinSet;

use super::budget::{Budget, MAX_READERS, is_small};
use super::flights::Flights;
use super::reading::{Whole, read_whole};
use crate::blocking::blocking;
use crate::error::Error;
use crate::watch::{LayerWatch, silent};

/// The blobs that are being read for one store.
#[derive(Clone, Debug, Default)]
pub struct Ahead(Arc<Mutex<HashMap<Digest, Early>>>);

/// One of them. Dropping it ends the reading.
#[derive(Debug)]
struct Early {
    source: Arc<Registry>,
    size: u64,
    /// One task.
    reading: JoinSet<Result<Whole, Error>>,
}

/// Held as long as the blobs may be of use. What nobody took until then is given up.
#[derive(Debug)]
pub struct Begun {
    ahead: Ahead,
    source: Arc<Registry>,
}

impl Ahead {
    /// Begins to read small blobs of an image that comes from this source, the largest first, if
    /// that may be no waste.
    pub async fn begin(
        &self,
        source: Arc<Registry>,
        layers: &[Descriptor],
        (store, flights, budget): (Arc<Store>, Flights, Budget),
    ) -> Option<Begun> {
        if layers.iter().any(|blob| blob.encryption().is_some()) {
            return None;
        }
        let small = layers.iter().filter(|blob| is_small(blob.size));
        let mut blobs: Vec<_> = small.cloned().collect();
        blobs.sort_by_key(|blob| std::cmp::Reverse(blob.size));
        let (ahead, last) = (self.clone(), LastFailure::current());
        let begun = blocking(move || {
            // Looked at with the lock, which who begins a layer needs before it asks for the blob.
            let mut all = ahead.lock();
            if !all.is_empty() || !flights.is_empty() || !store.is_empty() {
                return Ok(None);
            }
            for blob in blobs.into_iter().take(MAX_READERS) {
                // An image may have one twice.
                if all.contains_key(&blob.digest) {
                    continue;
                }
                let Some(leave) = budget.leave_now(blob.size) else {
                    break;
                };
                let source = source.clone();
                let digest = blob.digest.clone();
                let mut early =
                    Early { source: source.clone(), size: blob.size, reading: JoinSet::new() };
                early.reading.spawn(last.clone().of_owned(async move {
                    read_whole(&source, &blob, leave, &LayerWatch::new(&blob, silent)).await
                }));
                all.insert(digest, early);
            }
            let is_begun = !all.is_empty();
            drop(all);
            Ok(is_begun.then_some(Begun { ahead, source }))
        });
        begun.await.ok().flatten()
    }

    /// Waits for a blob that is being read where this source reads; nothing if it is not, or if it
    /// was of no use to another pull.
    ///
    /// # Errors
    ///
    /// Those of this source.
    pub async fn take(
        &self,
        source: &Arc<Registry>,
        blob: &Descriptor,
    ) -> Result<Option<Whole>, Error> {
        let early = {
            let mut all = self.lock();
            let early = all.get(&blob.digest);
            let is_it =
                early.is_some_and(|early| early.size == blob.size && early.source.reads_as(source));
            is_it.then(|| all.remove(&blob.digest)).flatten()
        };
        let Some(mut early) = early else {
            return Ok(None);
        };
        let is_own = Arc::ptr_eq(&early.source, source);
        match early.reading.join_next().await {
            Some(Ok(Ok(whole))) if is_own => Ok(Some(whole)),
            Some(Ok(Ok(whole))) => whole.of(&blob.digest).await,
            Some(Ok(Err(error))) if is_own => Err(error),
            _ => Ok(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Early>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut all = self.ahead.lock();
        all.retain(|_, early| !Arc::ptr_eq(&early.source, &self.source));
    }
}
