//! Other people's credential and registry files in, our document out.
//!
//! What nodes and clusters already hold: docker configurations and the secrets that carry them,
//! kubelet's credential-provider plugins, and the registry files of container engines. Each reader
//! turns bytes into [`Offer`]s, and tells by [`Finding`]s what it could not take over. Offers never
//! win over what an administrator wrote in the document itself.
//!
//! Not here: which files are read on a node and when (`kata-configdev` decides that), and the
//! document's own rules (`registry-config`).
//!
//! - [`docker_config`]: docker's files. [`secret_manifest`]: the secrets that carry them.
//!   [`secretgen`]: in which order several count.
//! - [`offer`]: what a source says about one registry. [`client_identity`]: whether a client
//!   certificate can be used. [`finding`]: what a source said that has no place in the document.
//! - [`decryption_secret`]: keys of encrypted images, as secrets hold them.
//! - [`kubelet`]: credential-provider plugins of a node.
//! - [`certs_d`], [`containerd_config`], [`registries_yaml`], [`registries_conf`]: the registry
//!   files of container engines. `cri_registries`: what two of them say in the same words.
//!   [`registry_file`]: what all have in common, and how it becomes a document. [`crio_config`]:
//!   what CRI-O tells Kata's handlers.
//! - [`proxy_environment`]: the proxies of a node's own programs. [`systemd_unit`]: the environment
//!   that systemd gives a service.
//! - [`node_files`]: files that name others. `glob`: the patterns in such names, and of hosts.
//! - [`mod@merge`]: offers put below what a document says, and who wins. [`fn@combine`]: a whole
//!   document put below another one.

pub mod certs_d;
pub mod client_identity;
mod combine;
pub mod containerd_config;
mod cri_registries;
pub mod crio_config;
pub mod decryption_secret;
pub mod docker_config;
pub mod finding;
mod glob;
pub mod kubelet;
pub mod merge;
pub mod node_files;
pub mod offer;
pub mod proxy_environment;
pub mod registries_conf;
pub mod registries_yaml;
pub mod registry_file;
pub mod secret_manifest;
pub mod secretgen;
pub mod systemd_unit;

use serde::{Deserialize, Deserializer};

pub use combine::{Combined, combine};
pub use finding::{Finding, Loss, printable};
pub use merge::merge;
pub use offer::Offer;

/// Reads a value that may be null, as in a file whose author has not filled it in yet.
fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The line and column of an error in YAML, from 1; 0 where none is known.
fn place(error: &serde_saphyr::Error) -> (u64, u64) {
    let place = error.location();
    place.map_or((0, 0), |place| (place.line(), place.column()))
}
