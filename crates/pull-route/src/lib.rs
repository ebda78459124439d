//! Which hosts a pull asks, in which order, as whom, trusting whom and through which proxy.
//!
//! The rules are here and nowhere else: the guest acts by them, the host explains by them. Nothing
//! here reads a file, looks up a name or opens a connection.
//!
//! The entry is [`Settings::plan`]. From there:
//! - [`Settings`]: the documents of a pull, and which entry ([`Authority`]) is in charge of a host.
//! - [`Plan`]: the mirror and the registry in order, before anything is fetched by reference;
//!   [`Plan::fill`] makes a [`Route`] of [`Source`]s of it.
//! - [`Account`]: who the puller is to each of them.
//! - [`Reason`]: why each of these is as it is.
//! - [`trust`]: what holds for a host that a source sends the puller to.
//! - [`Proxies`]: the proxy on the way to a URL, with the meaning that Go gives to `NO_PROXY`
//!   ([`no_proxy`]).
//! - [`address`]: addresses that no server may send the puller to.
//!
//! Not here: what a document may say (`registry-config`), and HTTP (`registry-client`).

mod account;
pub mod address;
#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod combination_tests;
mod error;
#[cfg(test)]
mod mirror_tests;
pub mod no_proxy;
mod plan;
#[cfg(test)]
mod plan_tests;
mod proxy;
mod quoted;
mod reason;
#[cfg(test)]
mod repository_tests;
mod settings;
mod source;
pub mod trust;

pub use account::{Account, EntryAccount};
pub use error::Error;
pub use plan::{Plan, Route, Step};
pub use proxy::Proxies;
pub use quoted::quoted;
pub use reason::Reason;
pub use settings::{Authority, EntryName, PlacedDocument, PlacedKey, Settings};
pub use source::{Source, host_of};
pub use trust::Trust;
