//! The keys that the documents hold themselves.

use std::collections::BTreeMap;

use keys::PrivateKey;
use pull_route::Settings;
use registry_config::DecryptionKey;
use zeroize::Zeroizing;

use super::{Name, PlacedKey, Unlocking};
use crate::blocking::blocking;
use crate::error::Error;

/// How many keys with passwords are read for one image; each may cost a second.
const MAX_PASSWORDS: usize = 16;

/// A key as a document holds it.
struct DocumentKey {
    key: Zeroizing<Vec<u8>>,
    password: Option<Zeroizing<Vec<u8>>>,
    /// Where that is.
    words: String,
}

impl Unlocking<'_> {
    /// The keys that the documents hold themselves: those without a password together, then the
    /// others, one by one.
    pub(super) async fn try_given(
        &mut self,
        settings: &Settings,
        name: Name<'_>,
    ) -> Result<(), Error> {
        let mut open = Vec::new();
        let mut closed = Vec::new();
        for placed in settings.decryption_keys(name.registry, name.repository) {
            if let DecryptionKey::Given { key, password } = placed.key {
                let words = placed.to_string();
                let given = DocumentKey { key: key.clone(), password: password.clone(), words };
                match password {
                    None => open.push(given),
                    Some(_) => closed.push(given),
                }
            }
        }
        let mut candidates = Vec::new();
        if self.wants_keys() {
            for given in open {
                candidates.extend(self.read(given).await?);
            }
        }
        // Also without any key: it says what would open the layers.
        self.attempt(candidates, BTreeMap::new()).await?;
        for (at, given) in closed.into_iter().enumerate() {
            if !self.wants_keys() {
                return Ok(());
            }
            if at == MAX_PASSWORDS {
                let problem = format!("of the keys with passwords only {MAX_PASSWORDS} are tried");
                self.problems.push(problem);
                return Ok(());
            }
            if let Some(candidate) = self.read(given).await? {
                self.attempt(vec![candidate], BTreeMap::new()).await?;
            }
        }
        Ok(())
    }

    /// Reads a key that a document holds. Where it cannot be, another one may do; if none does,
    /// this is part of the reason.
    async fn read(&mut self, given: DocumentKey) -> Result<Option<PlacedKey>, Error> {
        let DocumentKey { key, password, words } = given;
        let read = blocking(move || {
            let password = password.as_ref().map(|password| password.as_slice());
            Ok(PrivateKey::read(&key, password))
        });
        Ok(match read.await? {
            Ok(key) => Some((key, words)),
            Err(error) => {
                self.problems.push(format!("{words}: {error}"));
                None
            }
        })
    }
}
