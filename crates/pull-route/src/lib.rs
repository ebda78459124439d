//! Which hosts a pull asks, in which order, as whom, trusting whom and through which proxy.
//!
//! The rules are here and nowhere else: the guest acts by them, the host explains by them. Nothing
//! here reads a file, looks up a name or opens a connection.
//!
//! The entry is [`Settings`]: the documents of a pull, and which entry of them is in charge of a
//! host. From there:
//! - [`Source::order`]: the mirror and the registry in order, each with its [`Authority`] (the entry
//!   in charge) and its credentials.
//! - [`trust`]: what holds for a host that a source sends the puller to.
//! - [`Proxies`]: the proxy on the way to a URL, with the meaning that Go gives to `NO_PROXY`
//!   ([`no_proxy`]).
//! - [`address`]: addresses that no server may send the puller to.
//!
//! Not here: what a document may say (`puller-config`), and HTTP (`registry-client`).

pub mod address;
mod error;
pub mod no_proxy;
mod proxy;
mod quoted;
mod settings;
mod source;
pub mod trust;

pub use error::Error;
pub use proxy::Proxies;
pub use quoted::quoted;
pub use settings::{Authority, Origin, PlacedDocument, Settings};
pub use source::{Source, host_of};
pub use trust::Trust;
