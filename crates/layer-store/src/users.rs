//! Which layers are in use: by pulls, which hold a handle, and by containers.
//!
//! Containers hold handles too, in the service's memory, so one rule is enough: a layer is in use
//! while a handle exists. What the disk says about containers is read once, when a service opens
//! the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::directory::Root;
use crate::layer::Layer;

/// Behind a lock, under which a layer is found and kept, or found unused and taken away.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<Table>);

#[derive(Debug, Default)]
pub(crate) struct Table {
    pins: HashMap<String, Weak<()>>,
    containers: HashMap<String, Holder>,
}

/// A container as a user of layers.
#[derive(Debug)]
struct Holder {
    /// None where the list could not be read.
    layers: Option<Vec<Layer>>,
    /// Whether its mount is not there yet, or may still be undone.
    is_mounting: bool,
}

impl Users {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Table> {
        // Each change below is one insertion or removal, so a thread that panicked left nothing
        // half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// A handle of the layer.
    pub(crate) fn pin(&mut self, name: &str, root: &Root) -> Layer {
        if let Some(pin) = self.pins.get(name).and_then(Weak::upgrade) {
            return Layer::new(root, name, pin);
        }
        let pin = Arc::new(());
        self.pins.insert(name.to_owned(), Arc::downgrade(&pin));
        Layer::new(root, name, pin)
    }

    /// Whether somebody uses the layer, or might.
    pub(crate) fn uses(&self, layer: &str) -> bool {
        let is_pinned = |pin: &Weak<()>| pin.strong_count() > 0;
        self.pins.get(layer).is_some_and(is_pinned)
            || self.containers.values().any(|users| users.layers.is_none())
    }

    /// Forgets a layer that is no longer there.
    pub(crate) fn forget(&mut self, layer: &str) {
        self.pins.remove(layer);
    }

    /// Notes a container that is about to be mounted, or was by an earlier service.
    pub(crate) fn note(&mut self, container: &str, layers: Option<Vec<Layer>>, is_mounting: bool) {
        let holder = Holder { layers, is_mounting };
        self.containers.insert(container.to_owned(), holder);
    }

    /// Leaves a container to its mount: from now on it counts as long as that.
    pub(crate) fn mounted(&mut self, container: &str) {
        if let Some(holder) = self.containers.get_mut(container) {
            holder.is_mounting = false;
        }
    }

    /// The containers that have a mount, or had one.
    pub(crate) fn with_mount(&self) -> Vec<String> {
        let with_mount = self.containers.iter().filter(|(_, holder)| !holder.is_mounting);
        with_mount.map(|(name, _)| name.clone()).collect()
    }

    /// Forgets a container; gives what it used.
    pub(crate) fn end(&mut self, container: &str) -> Vec<Layer> {
        let holder = self.containers.remove(container);
        holder.and_then(|holder| holder.layers).unwrap_or_default()
    }
}
