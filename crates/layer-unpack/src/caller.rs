//! Whether anybody still waits for a layer. A thread that unpacks one cannot be stopped from
//! outside; it has to look.

use std::io;
use std::sync::{Arc, Weak};

/// Held by who waits. Dropped, with the future of a pull for example, it ends the work.
#[derive(Debug, Default)]
pub struct Waiting(Arc<()>);

/// The view of who works.
#[derive(Clone, Debug)]
pub struct Caller(Weak<()>);

impl Waiting {
    /// The view for who works.
    pub fn caller(&self) -> Caller {
        Caller(Arc::downgrade(&self.0))
    }
}

impl Caller {
    /// Whether nobody waits any more.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// How a read ends that nobody waits for.
pub(crate) fn gone() -> io::Error {
    io::Error::other("nobody waits for it any more")
}
