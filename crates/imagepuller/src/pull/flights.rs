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

use super::reading::Arrived;
use crate::error::Error;
use crate::progress::{Event, Progress};

/// The layers that are on their way to one store.
#[derive(Clone, Debug, Default)]
pub struct Flights(Arc<Mutex<HashMap<LayerName, Weak<Flight>>>>);

/// One layer on its way. When nobody holds it any more, it ends.
struct Flight {
    /// Nothing while it is under way; then the layer, or that there is none.
    landed: watch::Receiver<Option<Option<Layer>>>,
    listeners: Arc<Listeners>,
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
        name: &LayerName,
        progress: &Progress,
        fetch: impl Fn(Progress) -> F,
    ) -> Result<Layer, Error>
    where
        F: Future<Output = Result<Arrived<H>, Error>> + Send + 'static,
        H: Send + 'static,
    {
        loop {
            let (flight, own) = self.join(name, progress, &fetch);
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
        name: &LayerName,
        progress: &Progress,
        fetch: impl Fn(Progress) -> F,
    ) -> (Arc<Flight>, Option<oneshot::Receiver<Result<Layer, Error>>>)
    where
        F: Future<Output = Result<Arrived<H>, Error>> + Send + 'static,
        H: Send + 'static,
    {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, flight| flight.strong_count() > 0);
        let under_way = all.get(name).and_then(Weak::upgrade);
        if let Some(flight) = under_way.filter(|flight| flight.is_under_way()) {
            flight.listeners.add(progress);
            return (flight, None);
        }
        let listeners = Arc::new(Listeners::default());
        listeners.add(progress);
        let (land, landed) = watch::channel(None);
        let (tell, own) = oneshot::channel();
        let heard = listeners.clone();
        let work = fetch(Progress::new(move |event| heard.tell(event)));
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
        let flight = Arc::new(Flight { landed, listeners, last, task: task.abort_handle() });
        all.insert(name.clone(), Arc::downgrade(&flight));
        (flight, Some(own))
    }
}

/// The pulls that watch one flight.
#[derive(Default)]
struct Listeners(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    progress: Vec<Progress>,
    /// What one that comes later has to know: that it was begun, how far it is, and that it is
    /// there where that is not handed on yet.
    started: Option<Event>,
    received: Option<Event>,
    ended: Option<Event>,
}

impl Listeners {
    fn add(&self, progress: &Progress) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = [&heard.started, &heard.received, &heard.ended];
        for event in known.into_iter().flatten() {
            progress.tell(event.clone());
        }
        heard.progress.push(progress.clone());
    }

    fn tell(&self, event: Event) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &event {
            Event::Started { .. } => {
                heard.started = Some(event.clone());
                heard.received = None;
                heard.ended = None;
            }
            Event::Received { .. } => heard.received = Some(event.clone()),
            Event::Unpacked { .. } | Event::Shared { .. } => heard.ended = Some(event.clone()),
            _ => {}
        }
        for progress in &heard.progress {
            progress.tell(event.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use oci_image::digest::Digest;

    use super::*;

    /// A pull that came when a layer was unpacked and not handed on yet had all of its layers but
    /// that one, until its end.
    #[test]
    fn who_comes_late_is_told_of_the_end() {
        let blob = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
        let listeners = Listeners::default();
        listeners.tell(Event::Started { blob: blob.clone(), bytes: 1, host: "r.corp".to_owned() });
        listeners.tell(Event::Unpacked { blob, plain_bytes: 1, entries: 1 });
        let (tell, told) = mpsc::channel();
        listeners.add(&Progress::new(move |event| tell.send(event).unwrap()));
        let told: Vec<_> = told.try_iter().collect();
        assert!(matches!(told[..], [Event::Started { .. }, Event::Unpacked { .. }]), "{told:?}");
    }
}
