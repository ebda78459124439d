//! Docker's credential files: what their entries say, and which of them holds for a repository.
//!
//! `config.json`, `auth.json` and what the secrets for image pulls hold. The host reads them to
//! make a document of them, the guest reads one that it fetched confidentially; both by this
//! reader, so that a file means the same on either side.
//!
//! Four programs read these files, each in its own way. Where they differ, this reader does the
//! following:
//!
//! | case | this reader | as |
//! |---|---|---|
//! | `username` and `password` without `auth` | used | kubelet |
//! | `auth` beside them | `auth` wins | all |
//! | `auth` without padding, or with line ends in it | accepted | kubelet |
//! | `auth` without a colon, or not base64 | the entry is lost, the others count | podman |
//! | the password ends in zero bytes or one line end | they are cut off | docker; image-rs |
//! | the password has several lines | it stays as it is | all |
//! | `identitytoken` | used, and stronger than a password | docker, podman |
//! | `registrytoken` | used, and the strongest | docker |
//! | keys of an object in another case, or written twice | the last counts | programs in Go |
//! | a value of another type, such as a number | the file is refused | all |
//! | a scheme before the host, `/v1/` and `/v2/` after it | dropped, see [`key`] | kubelet |
//!
//! The guest chooses more strictly, because there no one reads a warning: see
//! [`DockerConfig::credentials_for`].
//!
//! Not here: what becomes of several files, and of entries that a document cannot have
//! (`credential-sources`); where a file comes from.
//!
//! Entry: [`DockerConfig::parse`]. `json` reads, [`key`] and `entry` say what is meant, `choice`
//! finds what holds for a repository.

mod choice;
mod entry;
mod json;
pub mod key;

use std::collections::BTreeMap;
use std::fmt;

pub use choice::Unfit;
pub use entry::{Entry, Meaning, Unusable, without_line_end};
pub use json::{ConfigError, Shape, shape};

/// The longest file. A secret of Kubernetes has at most this much too.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

/// The most entries of a file: as many as the document has.
pub const MAX_ENTRIES: usize = registry_config::MAX_REGISTRIES;

/// The most JSON values of a file, also in what is not read: many times what its entries take. They
/// take memory while the file is read. Raising it breaks nothing.
pub const MAX_VALUES: usize = 100_000;

/// What a file says: its entries as they are written, each key once. `Debug` shows no key either:
/// one may hold a password before an `@`.
#[derive(Clone, Default)]
pub struct DockerConfig {
    /// The entries by key, in the order of their keys.
    pub entries: BTreeMap<String, Entry>,
    /// Keys that were written twice; the last one is among the entries.
    pub repeated: Vec<String>,
    /// The helpers by registry: `NAME` stands for the program `docker-credential-NAME` on
    /// somebody's machine. As they are written; empty where it is no text.
    pub helpers: BTreeMap<String, String>,
    /// The helper of all registries.
    pub store: Option<String>,
    /// Whether headers for all requests are asked for.
    pub has_headers: bool,
    /// Whether there was more than one table of entries.
    has_several_tables: bool,
}

impl fmt::Debug for DockerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerConfig").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}
