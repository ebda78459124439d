//! Secrets by their path.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Secrets by `repository/type/tag`.
#[derive(Clone, Default)]
pub struct Vault(BTreeMap<String, Vec<u8>>);

impl std::fmt::Debug for Vault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl Vault {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one secret more.
    #[must_use]
    pub fn with(mut self, path: &str, secret: impl AsRef<[u8]>) -> Self {
        self.0.insert(path.to_owned(), secret.as_ref().to_vec());
        self
    }

    /// The same without one.
    #[must_use]
    pub fn without(mut self, path: &str) -> Self {
        self.0.remove(path);
        self
    }

    /// The secret at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.0.get(path).map(Vec::as_slice)
    }

    /// The secret that a URI names; the host in it does not matter.
    pub(super) fn get_uri(&self, uri: &str) -> Option<&[u8]> {
        let rest = uri.strip_prefix("kbs://")?;
        self.get(rest.split_once('/')?.1)
    }

    /// The file that `offline_fs_kbc` reads.
    #[must_use]
    pub fn offline_file(&self) -> String {
        let entries = self.0.iter();
        let members: serde_json::Map<String, Value> =
            entries.map(|(path, secret)| (path.clone(), STANDARD.encode(secret).into())).collect();
        Value::from(members).to_string()
    }

    /// Reads such a file.
    ///
    /// # Errors
    ///
    /// Where it is none.
    pub fn load(file: &Path) -> Result<Self> {
        let text =
            std::fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
        let members: BTreeMap<String, String> = serde_json::from_slice(&text)?;
        members.into_iter().try_fold(Self::new(), |vault, (path, secret)| {
            Ok(vault.with(&path, STANDARD.decode(secret)?))
        })
    }
}
