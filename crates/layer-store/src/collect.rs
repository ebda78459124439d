//! Removes layers and containers that nothing uses.
//!
//! A container has ended when its mount is gone from every mount namespace. Then its directories
//! are removed, and its layers have one user less. Layers without users stay, so that the same
//! container starts quickly again, until a pull needs their room. With the last layer of an image
//! go its documents. Everything loses its name first and its files later, so the next run can go on
//! wherever this one stopped.

use std::fs;
use std::sync::PoisonError;
use std::time::SystemTime;

use crate::directory::{entries, name_of};
use crate::error::Error;
use crate::mountinfo;
use crate::name::LayerName;
use crate::store::Store;
use crate::waste::{discard, is_missing, throw_away};

/// How much was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of unused layers.
    pub layers: usize,
    /// Containers whose mount is gone.
    pub containers: usize,
}

/// Containers that lost their mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// How many were thrown away.
    pub(crate) containers: usize,
    /// How many are mounted only in other mount namespaces, whose end nobody announces.
    pub(crate) elsewhere: usize,
}

impl Store {
    /// Removes containers whose mount is gone, and layers that nothing uses. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`], also where it cannot be told what is mounted; nothing that may be in use is
    /// removed then.
    pub fn collect(&self) -> Result<Collected, Error> {
        let swept = self.sweep()?;
        let mut layers = 0;
        for (name, _) in self.by_last_use()? {
            layers += usize::from(self.give_up(&name)?);
        }
        self.empty_waste();
        Ok(Collected { layers, containers: swept.containers })
    }

    /// Makes room for a pull: removes waste, and layers that nobody uses, the longest unused first,
    /// until `wanted` bytes are free. The caller holds handles of the layers that it wants to find
    /// later. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if not even `least` bytes are free then; [`Error::File`].
    pub fn make_room(&self, least: u64, wanted: u64) -> Result<(), Error> {
        let wanted = wanted.max(least);
        if self.room()?.holds(wanted) {
            return Ok(());
        }
        if let Err(error) = self.sweep() {
            tracing::warn!(%error, "cannot tell which containers are still mounted");
        }
        self.empty_waste();
        for (name, _) in self.by_last_use()? {
            if self.room()?.holds(wanted) {
                return Ok(());
            }
            if self.give_up(&name)? {
                tracing::info!(layer = name, "removed to make room");
                self.empty_waste();
            }
        }
        if self.room()?.holds(least) {
            return Ok(());
        }
        Err(Error::full(self.root(), Some(least)))
    }

    /// Removes a layer that is of no use to the pull that brought it, unless somebody else uses it.
    /// Says whether it did. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn give_back(&self, name: &LayerName) -> Result<bool, Error> {
        let is_gone = self.give_up(&name.file_name())?;
        self.empty_waste();
        Ok(is_gone)
    }

    /// Removes containers whose mount is gone and what else is waste, but no layer that another
    /// pull could find. Blocks.
    ///
    /// Gives whether it is to be called again after a while, because a container is mounted only
    /// where its end is not announced.
    pub fn tidy(&self) -> bool {
        let swept = self.sweep();
        if !self.is_at_its_path() {
            self.give_up_unused();
        }
        self.empty_waste();
        match swept {
            Ok(swept) => swept.elsewhere > 0,
            Err(error) => {
                tracing::warn!(%error, "cannot tell which containers are still mounted");
                true
            }
        }
    }

    /// Ends the containers that are mounted nowhere.
    pub(crate) fn sweep(&self) -> Result<Swept, Error> {
        // Noted before the look: what is mounted meanwhile is not among them.
        let mut without = self.users.lock().with_mount();
        let mut swept = Swept::default();
        let asked = |error| Error::file("read", "/proc/self/mountinfo")(error);
        if without.is_empty() {
            return Ok(swept);
        }
        let here = mountinfo::here().map_err(asked)?;
        without.retain(|name| !here.contains(name));
        if without.is_empty() {
            return Ok(swept);
        }
        let elsewhere = mountinfo::elsewhere();
        let elsewhere = elsewhere.map_err(Error::file("read mounts of", "/proc"))?;
        for name in without {
            if elsewhere.contains(&name) {
                swept.elsewhere += 1;
                continue;
            }
            self.end(&name)?;
            swept.containers += 1;
        }
        Ok(swept)
    }

    fn end(&self, name: &str) -> Result<(), Error> {
        let path = self.root().join("containers").join(name);
        // With the lock held, for somebody else may have found the same.
        let mut users = self.users.lock();
        if !is_missing(&path) {
            throw_away(self.root(), &path)?;
        }
        for layer in users.end(name) {
            layer.touch();
        }
        Ok(())
    }

    /// Throws all layers away that nobody uses.
    fn give_up_unused(&self) {
        let given_up = self.by_last_use().and_then(|layers| {
            layers.iter().try_for_each(|(name, _)| self.give_up(name).map(drop))
        });
        if let Err(error) = given_up {
            tracing::warn!(%error, "cannot remove the layers of a store that is mounted over");
        }
    }

    /// Throws a layer away unless somebody uses it; says whether it did.
    fn give_up(&self, name: &str) -> Result<bool, Error> {
        let mut users = self.users.lock();
        if users.uses(name) {
            return Ok(false);
        }
        let path = self.root().join("layers").join(name);
        if is_missing(&path) {
            return Ok(false);
        }
        throw_away(self.root(), &path)?;
        users.forget(name);
        Ok(true)
    }

    /// Names of all layers, the longest unused first.
    fn by_last_use(&self) -> Result<Vec<(String, SystemTime)>, Error> {
        let mut layers = Vec::new();
        for path in entries(&self.root().join("layers"))? {
            // One that is gone again has been removed by somebody else.
            let used = fs::metadata(&path).and_then(|metadata| metadata.modified());
            if let Ok(used) = used {
                layers.push((name_of(&path), used));
            }
        }
        layers.sort_by_key(|(_, used)| *used);
        Ok(layers)
    }

    fn empty_waste(&self) {
        if let Err(error) = self.drop_documents() {
            tracing::warn!(%error, "cannot tell which documents lead to no layer any more");
        }
        let _alone = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        match entries(&self.root().join("waste")) {
            Ok(paths) => paths.iter().for_each(|path| {
                discard(path);
            }),
            Err(error) => tracing::warn!(%error, "cannot empty the waste"),
        }
    }
}
