//! The stores that one service uses: the one at the settings' path, and those that something was
//! mounted over.

use std::sync::Arc;

use layer_store::caretaker::Caretaker;
use layer_store::store::Store;
use tokio::sync::Mutex;

use super::Settings;
use crate::blocking::blocking;
use crate::error::Error;
use crate::pull::{Options, Puller};
use crate::store_mount;

/// Opened while callers can connect already. One that cannot be opened is tried again for each
/// call, and the caller learns why. More than one, once something was mounted over the first: that
/// keeps what its containers use.
#[derive(Debug, Default)]
pub struct Stores(Mutex<Vec<Arc<Open>>>);

/// A store in use.
#[derive(Debug)]
pub struct Open {
    pub puller: Arc<Puller>,
    pub store: Arc<Store>,
    /// Removes what ended containers leave.
    _caretaker: Caretaker,
}

impl Stores {
    /// The store that the settings' path leads to now.
    pub async fn open(&self, settings: &Settings) -> Result<Arc<Open>, Error> {
        if let Some(path) = &settings.store_mount {
            store_mount::wait(path).await?;
        }
        let mut stores = self.0.lock().await;
        let known = stores.clone();
        let here = |open: &Arc<Open>| open.store.is_at_its_path();
        let found = blocking(move || Ok(known.into_iter().find(here))).await?;
        if let Some(open) = found {
            return Ok(open);
        }
        let open = Arc::new(open_new(settings, stores.first()).await?);
        if !stores.is_empty() {
            let path = settings.store.display();
            tracing::info!(
                %path,
                "something was mounted over the image store; using it from now on"
            );
        }
        stores.push(open.clone());
        Ok(open)
    }
}

/// The store at the path, beside `first` where the service has one already.
async fn open_new(settings: &Settings, first: Option<&Arc<Open>>) -> Result<Open, Error> {
    let path = settings.store.clone();
    let opened = blocking(move || {
        let store = Arc::new(Store::open(&path)?);
        Ok((store.clone(), Caretaker::start(store)?))
    });
    let (store, caretaker) = opened.await?;
    if let Some(first) = first {
        return Ok(Open {
            puller: Arc::new(first.puller.with_store(store.clone())),
            store,
            _caretaker: caretaker,
        });
    }
    let options = Options {
        source: settings.source.clone(),
        attestation_agent: settings.attestation_agent.clone(),
        patience: settings.timing.patience,
        reasons: settings.reasons.clone(),
        ..Options::default()
    };
    Ok(Open {
        puller: Arc::new(Puller::new(store.clone(), settings.documents.clone(), options)),
        store,
        _caretaker: caretaker,
    })
}
