//! The registry configuration document parsed into types that cannot be invalid, and the
//! registry-name matcher.
//!
//! Host and guest read the same document with this crate: the host to refuse mistakes early, the
//! guest because it believes nobody. `docs/document.md` describes the document for those who write
//! it.
//!
//! Not here: files and devices (the programs open those), HTTP and TLS (the puller's), the meaning
//! of `NO_PROXY` (`pull-route`'s), and other people's credential formats.
//!
//! Begin with [`Document::parse`]. What it returns:
//!
//! - `document`: [`Document`], the whole; `slots` lists its keys with their values for `writing`,
//!   which also shows it, and for `record`, which the guest's event log has;
//! - `host_name`, `host`, `name`, `repositories`, `registry`: [`RegistryHost`], [`RegistryName`],
//!   and the matcher, [`Registries::entry_for`] and [`Registries::repository_entries`];
//! - `credentials`, `client_identity`, `roots`, `root_dates`, `mirror`, `extra_env`,
//!   `proxy_url`, `secret`: what an entry and `[extra-env]` consist of, and [`credential_rule`]:
//!   what a user name, a password and a token may be;
//! - `resource_uri`, `resources`, `resource_source`, `decryption_keys`: secrets by reference, where
//!   the guest asks for them, and the keys of encrypted images;
//! - `node_error`: [`NodeError`], what a node says that has no document to give;
//! - `pins`, `image_policy`: [`Pins`] and [`ImagePolicy`], which content images have and which
//!   signatures they need, as it was written;
//! - `limits`: how large each part may be;
//! - `problem`, `rule`, `effect`: [`Problems`], everything that is wrong, and [`Warning`], what is
//!   legal but perhaps not meant.
//!
//! `completion` puts one document of the owner below another one.
//!
//! How it gets there: `section` is a table that is asked for its keys, `entry`, `credential_keys`
//! and `mirror_keys` read a registry, `standard_base64` and `der_element` the encodings of its
//! values.
//!
//! ```
//! use registry_config::{Document, Match, RegistryHost};
//!
//! let text = "[registries.\".corp\"]\nusername = \"robot\"\npassword = \"example\"\n";
//! let checked = Document::parse(text.as_bytes())?;
//! let host = RegistryHost::parse("registry.corp:5000")?;
//! let found = checked.document.registries.entry_for(&host);
//! assert!(matches!(found, Match::Entry { literal: false, .. }));
//! assert!(!checked.document.redacted().contains("example"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client_identity;
mod completion;
mod credential_keys;
pub mod credential_rule;
mod credentials;
mod decryption_keys;
mod der_element;
mod document;
mod effect;
mod entry;
mod extra_env;
mod host;
mod host_name;
mod image_policy;
mod limits;
mod mirror;
mod mirror_keys;
mod name;
mod node_error;
mod pins;
mod problem;
mod proxy_url;
mod record;
mod registry;
mod repositories;
mod resource_source;
mod resource_uri;
mod resources;
mod root_dates;
mod roots;
mod rule;
mod secret;
mod section;
mod slots;
mod standard_base64;
mod writing;

pub use client_identity::ClientIdentity;
pub use credentials::Credentials;
pub use decryption_keys::{DecryptionKey, DecryptionKeys};
pub use document::{Checked, Document};
pub use effect::Effect;
pub use extra_env::ExtraEnv;
pub use host::RegistryHost;
pub use host_name::InvalidName;
pub use image_policy::{ImagePolicy, PolicyPart, PolicySource};
pub use limits::*;
pub use mirror::Mirror;
pub use name::RegistryName;
pub use node_error::NodeError;
pub use pins::{Pin, Pins};
pub use problem::{Origin, Problem, Problems, Warning};
pub use proxy_url::ProxyUrl;
pub use registry::{Match, Registries, Registry};
pub use repositories::is_below;
pub use resource_source::{InvalidResourceSource, ResourceSource};
pub use resource_uri::{InvalidResourceUri, ResourceUri};
pub use resources::Resources;
pub use root_dates::{RootOutsideDates, RootsAt};
pub use roots::Roots;
pub use rule::Rule;
pub use secret::Secret;
pub use standard_base64::decode as decode_base64;
