//! Which registries spoke no TLS lately, so that not every pull finds that out anew.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long it is remembered. A registry that has learnt TLS is asked over it after that, or when
/// it does not answer over plain HTTP any more.
const REMEMBERED: Duration = Duration::from_secs(600);

/// How many registries are remembered. More than a guest pulls from; a full table is begun anew.
const MAX_KNOWN: usize = 64;

/// Hosts that answered over plain HTTP after they had spoken no TLS.
///
/// It gives no leave: what is remembered counts for an entry with `plain-http` alone, which says
/// that plain HTTP is as good.
#[derive(Debug, Default)]
pub struct PlainHosts(Mutex<HashMap<String, Instant>>);

impl PlainHosts {
    /// Whether this host, as a person writes it, spoke no TLS lately.
    pub(crate) fn has(&self, host: &str) -> bool {
        let known = self.known();
        known.get(host).is_some_and(|found| found.elapsed() < REMEMBERED)
    }

    /// Remembers a host that has just been asked over both.
    pub(crate) fn insert(&self, host: String) {
        let mut known = self.known();
        if known.len() >= MAX_KNOWN && !known.contains_key(&host) {
            known.clear();
        }
        known.insert(host, Instant::now());
    }

    /// Has the host asked over TLS again.
    pub(crate) fn forget(&self, host: &str) {
        self.known().remove(host);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_ends() {
        let hosts = PlainHosts::default();
        assert!(!hosts.has("registry.corp:5000"));
        hosts.insert("registry.corp:5000".to_owned());
        tokio::time::advance(REMEMBERED / 2).await;
        assert!(hosts.has("registry.corp:5000") && !hosts.has("registry.corp"));
        tokio::time::advance(REMEMBERED / 2).await;
        assert!(!hosts.has("registry.corp:5000"));
        for number in 0..2 * MAX_KNOWN {
            hosts.insert(number.to_string());
        }
        assert!(hosts.known().len() <= MAX_KNOWN);
        hosts.insert("127".to_owned());
        assert!(hosts.has("127"));
        hosts.forget("127");
        assert!(!hosts.has("127"));
    }
}
