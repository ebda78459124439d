//! Manifests and blobs from registries and mirrors, as the documents say.
//!
//! Nothing that comes from here is believed: manifests and configurations come as `Unverified`,
//! blobs as bytes to be hashed by who reads them. Not here: what a document may say
//! (`puller-config`), and what is done with content.
//!
//! The entry is [`registry::Registry`]. From the outside inwards:
//! - [`settings`]: the documents as they are at this moment, which entry of them holds for whom,
//!   and what is left of the host's where credentials are confidential; [`patience`]: how long
//!   anything is waited for.
//! - [`source`]: mirror and registry in order; [`registry`]: manifests of one of them, and
//!   [`blob`]s, taken up again where they are cut off (`range`).
//! - `session`: one request, authenticated with `authorization`, [`challenge`] and `token`;
//!   `retry`: many of them.
//! - `transport`: redirects (`redirect`, `address`), clients and proxies (`client`, `proxy`,
//!   [`no_proxy`]) and whom to trust (`trust`, `tls`); `body`: small answers.
//! - [`error`]: everything that can go wrong, in the user's words; `failure` and `explain`: whether
//!   to ask again.

mod address;
mod attempt;
mod authorization;
pub mod blob;
mod body;
pub mod challenge;
mod client;
pub mod error;
mod explain;
mod failure;
pub mod no_proxy;
pub mod patience;
mod proxy;
mod range;
mod redirect;
pub mod registry;
mod retry;
mod retry_after;
mod session;
pub mod settings;
pub mod source;
mod tls;
mod token;
mod transport;
mod trust;

pub use attempt::Attempt;
pub use blob::Blob;
pub use error::{Error, Kind};
pub use patience::Patience;
