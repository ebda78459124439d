//! A confidential data hub as far as it gives resources and unwraps keys, over ttrpc on a Unix
//! socket.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use crate::peer::{INTERNAL, Peer};
use crate::{Vault, key_provider};
use vm_harness::ttrpc::{field, fields, put};

/// `ResourcePath` = 1 and `Resource` = 1.
const SERVICE: &str = "api.GetResourceService";
const METHOD: &str = "GetResource";
const SERVICES: &[&str] = &[SERVICE, key_provider::SERVICE];

/// A running data hub; stopped when dropped.
#[derive(Debug)]
pub struct DataHub {
    peer: Peer,
    vault: Arc<Mutex<Vault>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl DataHub {
    /// Starts a data hub that listens on `socket`.
    ///
    /// # Errors
    ///
    /// Where the socket cannot be made.
    pub fn start(socket: &Path, vault: Vault) -> Result<Self> {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = asked.clone();
        let vault = Arc::new(Mutex::new(vault));
        let has = vault.clone();
        let peer = Peer::start(socket, SERVICES, move |method, payload| {
            if method == key_provider::METHOD {
                lock(&record).push(method.to_owned());
                return key_provider::answer(payload, &lock(&has));
            }
            (method == METHOD).then(|| {
                let uri = field(&fields(payload).unwrap_or_default(), 1);
                let uri = String::from_utf8_lossy(&uri).into_owned();
                let vault = lock(&has);
                let secret = vault.get_uri(&uri);
                let mut message = Vec::new();
                put(&mut message, 1, secret.unwrap_or_default());
                let found = secret.map(|_| message);
                lock(&record).push(uri);
                found.ok_or((INTERNAL, "[CDH] [ERROR]: Get Resource failed".to_owned()))
            })
        })?;
        Ok(Self { peer, vault, asked })
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.peer.socket()
    }

    /// How a measured document names it.
    #[must_use]
    pub fn source(&self) -> String {
        format!("cdh=unix:{}", self.socket().display())
    }

    /// Has another secret at a path from now on.
    pub fn replace(&self, path: &str, secret: impl AsRef<[u8]>) {
        let mut vault = lock(&self.vault);
        *vault = vault.clone().with(path, secret);
    }

    /// The URIs that it was asked for, in order, and `UnWrapKey` for each packet.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
