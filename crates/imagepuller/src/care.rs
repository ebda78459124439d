//! Care of the store: what `gc` removes.

use std::sync::Arc;
use std::time::Duration;

use layer_store::collect::Keep;
use layer_store::store::Store;

use crate::error::Error;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of layers.
    pub layers: u64,
    /// Number of containers' directories whose mount is gone.
    pub containers: u64,
    /// By how many bytes the file system has more room now, whoever else writes there.
    pub bytes: u64,
}

/// Removes what nothing uses, and has not used for some time.
///
/// # Errors
///
/// [`Error::Store`].
pub async fn collect(store: Arc<Store>, unused_for: Duration) -> Result<Collected, Error> {
    let keep = if unused_for.is_zero() {
        Keep::Used
    } else {
        Keep::UsedWithin(unused_for)
    };
    let collect = move || {
        let before = store.room()?.free_bytes;
        let collected = store.collect(keep)?;
        Ok(Collected {
            layers: collected.layers as u64,
            containers: collected.containers as u64,
            bytes: store.room()?.free_bytes.saturating_sub(before),
        })
    };
    tokio::task::spawn_blocking(collect)
        .await
        .unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}
