//! Layers on their way. Each is brought by a task of its own, which goes on while any pull wants
//! the layer, whoever began it.
//!
//! What is shared are bytes on their way to a digest. Which pull may join has been decided before:
//! each has asked for the image as itself, and has its key.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use layer_store::layer::Layer;
use layer_store::name::LayerName;
use registry_client::LastFailure;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::layers::ImageLayer;
use super::reading::Arrived;
use crate::error::Error;
use crate::watch::{LayerWatch, Watch};

/// The layers that are on their way to one store.
#[derive(Clone, Debug, Default)]
pub struct Flights(Arc<Mutex<HashMap<LayerName, Weak<Flight>>>>);

/// One layer on its way. When nobody holds it any more, it ends.
struct Flight {
    /// Nothing while it is under way; then the layer, or that there is none.
    landed: watch::Receiver<Option<Option<Layer>>>,
    watch: Arc<LayerWatch>,
    /// What is waited for.
    last: LastFailure,
    task: AbortHandle,
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").finish_non_exhaustive()
    }
}

impl Flight {
    fn is_under_way(&self) -> bool {
        // Without a sender its task has ended, whatever of.
        self.landed.borrow().is_none() && self.landed.has_changed().is_ok()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Flights {
    /// Waits for a layer: the one that is on its way, or else the one that `fetch` brings. Another
    /// pull's failure is not this one's, which then asks for itself. What `fetch` holds with the
    /// layer is let go when no handle of the layer is left but those of who waited for it.
    pub async fn layer<F, H>(
        &self,
        wanted: &ImageLayer,
        watch: &Watch,
        fetch: impl Fn(Arc<LayerWatch>) -> F,
    ) -> Result<Layer, Error>
    where
        F: Future<Output = Result<Arrived<H>, Error>> + Send + 'static,
        H: Send + 'static,
    {
        loop {
            let (flight, own) = self.join(wanted, watch, &fetch);
            if let Some(own) = own {
                let ended = || Error::Internal("a layer's task ended without a result".to_owned());
                return own.await.unwrap_or_else(|_| Err(ended()));
            }
            let followed = LastFailure::follow(&flight.last);
            let mut landed = flight.landed.clone();
            let landed = landed.wait_for(Option::is_some).await;
            let layer = landed.ok().and_then(|landed| landed.clone().flatten());
            drop(followed);
            if let Some(layer) = layer {
                return Ok(layer);
            }
            // Whoever began it may be in the middle of letting go.
            tokio::task::yield_now().await;
        }
    }

    /// Whether some pull waits for a layer that is on its way.
    pub fn has(&self, name: &LayerName) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name).is_some_and(|flight| flight.strong_count() > 0)
    }

    /// Whether no pull waits for any layer.
    pub fn is_empty(&self) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().all(|flight| flight.strong_count() == 0)
    }

    /// The flight of a layer; if it begins now, also who gets to know how it ends.
    fn join<F, H>(
        &self,
        wanted: &ImageLayer,
        watch: &Watch,
        fetch: impl Fn(Arc<LayerWatch>) -> F,
    ) -> (Arc<Flight>, Option<oneshot::Receiver<Result<Layer, Error>>>)
    where
        F: Future<Output = Result<Arrived<H>, Error>> + Send + 'static,
        H: Send + 'static,
    {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, flight| flight.strong_count() > 0);
        let under_way = all.get(&wanted.name).and_then(Weak::upgrade);
        if let Some(flight) = under_way.filter(|flight| flight.is_under_way()) {
            watch.join(&flight.watch);
            return (flight, None);
        }
        let watch = watch.layer(&wanted.blob);
        let (land, landed) = watch::channel(None);
        let (tell, own) = oneshot::channel();
        let work = fetch(watch.clone());
        let last = LastFailure::current();
        let task = tokio::spawn(last.clone().of_owned(async move {
            let (result, _held) = match work.await {
                Ok(Arrived { layer, held }) => (Ok(layer), Some(held)),
                Err(error) => (Err(error), None),
            };
            land.send_replace(Some(result.as_ref().ok().cloned()));
            let _ = tell.send(result);
            // It has a handle of the layer too, and goes before what is held.
            drop(land);
        }));
        let flight = Arc::new(Flight { landed, watch, last, task: task.abort_handle() });
        all.insert(wanted.name.clone(), Arc::downgrade(&flight));
        (flight, Some(own))
    }
}
