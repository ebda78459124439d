//! Docker's credential files: `config.json`, `auth.json` and what the secrets for image pulls hold.
//!
//! Four programs read these files, and no two of them alike. Where they differ, this reader does what is written here:
//!
//! | case | this reader | as |
//! |---|---|---|
//! | `username` and `password` without `auth` | used | kubelet |
//! | `auth` beside them | `auth` wins | all |
//! | `auth` without padding, or with line ends in it | accepted | kubelet |
//! | `auth` without a colon, or not base64 | the entry is lost, the others count | podman |
//! | the password ends in zero bytes or one line end | they are cut off | docker; image-rs |
//! | `identitytoken` | used, and stronger than a password | docker, podman |
//! | `registrytoken` | used, and the strongest | docker |
//! | keys of an object in another case, or written twice | the last counts | programs in Go |
//! | a value of another type, such as a number | the file is refused | all |
//! | path in a key, pattern in a key | widened on request only, see [`key`] | |
//! | a scheme before the host, `/v1/` and `/v2/` after it | dropped | kubelet |
//! | a key without a port | holds for every port, as everywhere in the document | |
//! | `reg.corp` and `reg.corp:443` | one registry, of which one key counts | |
//! | `credHelpers`, `credsStore` | reported: a helper is a program on somebody's machine | |

pub mod key;

mod combine;
mod entry;
mod json;
#[cfg(test)]
mod tests;

pub use combine::{Input, Widening, offers};
pub use entry::Entry;
pub use json::{ConfigError, Shape, shape};

use crate::{Finding, Loss, printable};

/// The longest file. A secret of Kubernetes has at most this much too.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

/// The most entries of a file: as many as the document has.
pub const MAX_ENTRIES: usize = puller_config::MAX_REGISTRIES;

/// What a file says: its entries as they are written, each key once. `Debug` shows no key either: one may hold a password before an
/// `@`.
#[derive(Clone, Default)]
pub struct DockerConfig {
    /// The entries by key, in the order of their keys.
    pub entries: std::collections::BTreeMap<String, Entry>,
    /// The registries with a helper of their own.
    helpers: Vec<String>,
    /// Whether all registries have one.
    has_store: bool,
    /// Keys that were written twice.
    repeated: Vec<String>,
    /// Whether headers for all requests are asked for.
    has_headers: bool,
}

impl std::fmt::Debug for DockerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DockerConfig")
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl DockerConfig {
    /// Reads `config.json`, `auth.json` or `.dockerconfigjson`: an object with `auths`. Empty objects are valid.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]; it holds no value.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        json::parse_config(text)
    }

    /// Reads the older `.dockercfg`, which is what `auths` is in the others.
    ///
    /// # Errors
    ///
    /// As [`DockerConfig::parse`].
    pub fn parse_legacy(text: &[u8]) -> Result<Self, ConfigError> {
        json::parse_legacy(text)
    }

    /// What the file says beside its entries and this reader does not do.
    pub(crate) fn findings(&self, source: &str) -> Vec<Finding> {
        let finding = |key: String, loss, text: &str| Finding {
            source: source.to_owned(),
            key,
            loss,
            text: text.to_owned(),
        };
        let mut findings = Vec::new();
        if self.has_store {
            let text = "credentials kept by a helper program are not read; run the helper and write down what it answers";
            findings.push(finding("credsStore".to_owned(), Loss::Lost, text));
        }
        if self.has_headers {
            let text = "the image puller sends no headers of others";
            findings.push(finding("HttpHeaders".to_owned(), Loss::Note, text));
        }
        for registry in &self.helpers {
            let text = "its helper program is not run, so its credentials are missing";
            findings.push(finding(
                format!("credHelpers {}", printable(registry)),
                Loss::Lost,
                text,
            ));
        }
        for key in &self.repeated {
            let text = "written more than once; the last one counts";
            findings.push(finding(printable(key), Loss::Note, text));
        }
        findings
    }
}
