//! Layers and directories that nothing uses, removed: what `imagepuller gc` does.

use std::sync::Arc;
use std::time::Duration;

use layer_store::store::Store;

use crate::blocking::blocking;
use crate::error::Error;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of layers.
    pub layers: u64,
    /// Number of containers' directories whose mount is gone.
    pub containers: u64,
    /// How many bytes more are free on the file system, which others may write to as well.
    pub bytes: u64,
}

/// Removes layers that nothing uses and nothing has used for some time, and the directories of
/// containers that ended.
///
/// # Errors
///
/// [`Error::Store`].
pub async fn collect(store: Arc<Store>, unused_for: Duration) -> Result<Collected, Error> {
    blocking(move || {
        let before = store.room()?.free_bytes;
        let collected = store.collect(unused_for)?;
        Ok(Collected {
            layers: collected.layers as u64,
            containers: collected.containers as u64,
            bytes: store.room()?.free_bytes.saturating_sub(before),
        })
    })
    .await
}
