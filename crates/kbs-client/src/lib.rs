//! Resources that only the guest may see, fetched by URI from a key broker service or what stands
//! for one in the guest.
//!
//! A document or an image names a secret, and this crate gets it without the host being able to
//! read it: from the confidential data hub, which runs in the guest, from a key
//! broker (KBS), to which the guest proves what it is, or from files that were put into the guest.
//! Each answer is bounded in time and bytes, and trusted
//! for nothing but its content; errors say which source failed and why, and repeat neither secrets
//! nor foreign texts.
//!
//! Not here: what a secret is used for, and under which rules (`registry-client`, `ocicrypt`), and
//! which sources there are (`[resources]`, read by `puller-config`). Nothing is kept on disk,
//! nothing is read from the environment, and no proxy is used. Memory that held a secret is zeroed.
//!
//! Begin at [`Sources::new`], once, and for each pull at [`Client::new`]; then
//! [`Client::resource`].
//!
//! - `client`: the sources in their order, and the one that a pull keeps to. `source`: what they
//!   have in common.
//! - `hub`, `broker`, `files`: the sources.
//! - [`AttestationAgent`]: what speaks for the TEE. `call`: one call over ttrpc.
//! - `attester`: how a guest proves to a broker what it is.
//! - `unwrap`: keys that the hub unwraps.
//! - `http`, `buffer`: requests with limits, bytes that are zeroed. `clock`: what time it is there.
//! - `error`: [`Error`], and [`Fault`], why one source did not answer.

mod attestation_agent;
mod attester;
mod broker;
mod buffer;
mod call;
mod client;
mod clock;
mod error;
mod files;
mod http;
mod hub;
mod limits;
mod source;
mod unwrap;

pub use attestation_agent::{AttestationAgent, Extended};
pub use client::{Client, Origin, Sources};
pub use clock::broker_time;
pub use error::{Error, Failure, Fault, Others};
pub use limits::{Limits, MAX_RESOURCE_BYTES};

/// The readers of foreign bytes, for the fuzz targets only.
#[doc(hidden)]
pub mod fuzz {
    pub use crate::broker::challenge::Challenge;
    pub use crate::broker::message::{error_kind, token_of};
    pub use crate::files::find;
    pub use crate::hub::read as hub_answer;
    pub use crate::unwrap::options;
}
