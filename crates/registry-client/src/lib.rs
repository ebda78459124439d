//! Manifests and blobs from registries and mirrors, as the documents say.
//!
//! Nothing that comes from here is believed: manifests and configurations come as `Unverified`,
//! blobs as bytes to be hashed by who reads them. Not here: what a document may say
//! (`registry-config`), which hosts are asked, as whom and trusting whom (`pull-route`), and what is
//! done with content.
//!
//! The entry is [`registry::Registry`]. From the outside inwards:
//! - [`Documents`]: the files, read at this moment, with the hub's (`hub_configuration`) and pipes
//!   (`piped`); [`patience`]: how long anything is waited for.
//! - [`registry`]: manifests of one source, their `signatures`, and [`blob`]s, taken up again where
//!   they are cut off (`range`), or in several parts at once (`parts`).
//! - `session`: one request (`content_request`), authenticated with `authorization`, [`challenge`]
//!   and `token`, over TLS or not (`plain_hosts`); `retry`: many of them, as the server wants it
//!   (`retry_after`), and what failed more than once (`attempt`).
//! - `transport`: redirects (`redirect`), clients and proxies (`client`), addresses that may be
//!   connected to (`reach`) and certificates (`tls`); `body`: small answers.
//! - [`error`]: everything that can go wrong, in the user's words; `failure` and `explain`: whether
//!   to ask again; `stage`, [`Stage`]: how far a request came.

mod attempt;
mod authorization;
pub mod blob;
mod body;
pub mod challenge;
mod client;
mod content_request;
mod documents;
pub mod error;
mod explain;
mod failure;
mod hub_configuration;
mod parts;
pub mod patience;
mod piped;
mod plain_hosts;
mod range;
mod reach;
mod redirect;
pub mod registry;
mod retry;
mod retry_after;
mod session;
mod signatures;
mod stage;
mod tls;
mod token;
mod transport;

pub use blob::Blob;
pub use documents::{Documents, pins};
pub use error::{Error, Kind};
pub use hub_configuration::HubConfiguration;
pub use parts::Leave;
pub use patience::Patience;
pub use piped::Piped;
pub use plain_hosts::PlainHosts;
pub use retry::{Followed, LastFailure};
pub use stage::Stage;
pub use tls::gather_randomness;
