//! Gives back the layers that a pull has brought where its image cannot fit: in a guest they are
//! memory, and nobody else would ask for it.

use std::sync::Arc;
use std::time::Duration;

use layer_store::name::LayerName;
use layer_store::store::Store;

use super::flights::Flights;
use crate::blocking::blocking;
use crate::error::chain;

/// How long a layer's thread and task may take to notice that nobody waits for it any more.
const CLEANING_LIMIT: Duration = Duration::from_secs(5);

/// Removes layers that were not in the store when the pull began, but for those that other pulls
/// use or wait for by now. The pull itself holds none of them any more.
pub async fn give_back(names: Vec<LayerName>, store: &Arc<Store>, flights: &Flights) {
    for name in names {
        if flights.has(&name) {
            continue;
        }
        // Until its flight has ended, it may still become a layer, or the flight's task may have a
        // handle that keeps it.
        let flight = store.flight(&name).lock_owned();
        let Ok(alone) = tokio::time::timeout(CLEANING_LIMIT, flight).await else {
            continue;
        };
        let store = store.clone();
        let given_back = blocking(move || {
            let _alone = alone;
            Ok(store.give_back(&name)?)
        });
        if let Err(error) = given_back.await {
            tracing::warn!(error = chain(&error), "a layer of no use is kept");
        }
    }
}
