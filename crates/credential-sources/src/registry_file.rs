//! What the registry files of container engines have in common: more than credentials, and an order
//! of hosts to ask.
//!
//! A reader ([`certs_d`](crate::certs_d), [`registries_yaml`](crate::registries_yaml),
//! [`registries_conf`](crate::registries_conf)) turns each registry of its files into a
//! `plan::Plan`: the hosts that are asked for its images, in order, each with its settings.
//! `assemble` makes of all plans the entries of one document, in which a host has one entry. What
//! does not fit is told; [`Import::write`] writes the rest.
//!
//! One principle decides doubtful cases: an import never makes a guest ask a host that the files do
//! not name, never trust more than they do, and never send a password elsewhere. Where that leaves
//! no host to ask, the registry is forbidden.
//!
//! A name without a port means port 443 in these files and every port in the document, see
//! `docs/document.md`.
//!
//! - `reader`: a file that is being read. `report`: findings and faults.
//! - `endpoint`: a host's address. `certificates`: the CA files. `client`: client
//!   certificates.
//! - `plan`, `assemble` with `draft` and `mirror_entry`, `document`: as above.

pub(crate) mod assemble;
mod certificates;
mod client;
mod document;
mod draft;
pub(crate) mod endpoint;
mod mirror_entry;
pub(crate) mod plan;
mod reader;
mod report;
pub(crate) mod rewrite;

use std::path::Path;

use registry_config::{Credentials, Registry, RegistryName, Secret, decode_base64};
use zeroize::Zeroizing;

pub use certificates::{MAX_CA_FILE_BYTES, certificates};
pub use client::client;
pub use document::Written;
pub(crate) use endpoint::shown_address;
pub(crate) use mirror_entry::forbidden_by;
pub(crate) use reader::{ClientFiles, Reader, forbidden};
pub use report::{MAX_FINDINGS, Report};

/// Reads a file that another file names, up to [`MAX_CA_FILE_BYTES`], or says as a fragment why
/// not.
///
/// The reader passes absolute paths, and relative ones only where its documentation says so.
pub type ReadFile<'a> = dyn FnMut(&Path) -> Result<Zeroizing<Vec<u8>>, String> + 'a;

/// What the files say about one registry, in the document's terms.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: RegistryName,
    /// Where it comes from: a file.
    pub source: String,
    /// How its host is reached, and who is asked first.
    pub registry: Registry,
    /// Whether it says nothing, and only keeps another registry's credentials from a mirror.
    pub is_empty: bool,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Import {
    /// The document's entries.
    pub entries: Vec<Entry>,
    /// What there is to say about the files.
    pub report: Report,
}

/// Reads `auth`: base64, padded or not, of `user:password`. Zero bytes at the end are no part of a
/// password: Docker once padded with them.
pub(crate) fn decode_auth(auth: &str) -> Option<Credentials> {
    let bytes = decode_base64(auth)?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let (username, password) = text.trim_end_matches('\0').split_once(':')?;
    (!username.is_empty() || !password.is_empty()).then(|| Credentials::Basic {
        username: username.to_owned(),
        password: Secret::from(password.to_owned()),
    })
}
