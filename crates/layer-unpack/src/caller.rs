//! Whether anybody still waits for a layer. A thread cannot be stopped from outside, so it asks
//! here.

use std::io;
use std::sync::{Arc, Weak};

/// Held by the side that waits. Dropping it, for example with the future of a pull, ends the work.
#[derive(Debug, Default)]
pub struct CallerGuard(Arc<()>);

/// Held by the side that works.
#[derive(Clone, Debug)]
pub struct CallerWatch(Weak<()>);

impl CallerGuard {
    /// The other side of it.
    pub fn watch(&self) -> CallerWatch {
        CallerWatch(Arc::downgrade(&self.0))
    }
}

impl CallerWatch {
    /// Whether the waiting side is gone.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// # Errors
    ///
    /// That of a read that is given up, if the waiting side is gone.
    pub(crate) fn look(&self) -> io::Result<()> {
        if self.is_gone() {
            return Err(gone());
        }
        Ok(())
    }
}

/// The error of a read that was given up.
pub(crate) fn gone() -> io::Error {
    io::Error::other("nobody waits for it any more")
}
