//! Resources that only the guest may see, fetched by URI from CoCo's confidential data hub (CDH) or
//! what stands for it in the guest.
//!
//! A document or an image names a secret, and this crate gets it without the host being able to
//! read it: from the confidential data hub, which runs in the guest, or from a file that was put
//! into the guest. Each answer is bounded in time and bytes, and trusted for nothing but its
//! content; errors say why the source failed, and repeat neither secrets nor foreign texts.
//!
//! Not here: what a secret is used for, and under which rules (`registry-client`, `keys`), and
//! which source there is (`[resources]`, read by `registry-config`). Nothing is kept, and nothing is
//! read from the environment. Memory that held a secret is zeroed.
//!
//! Begin at [`resource`].
//!
//! - `client`: the source, and how it is asked; `hub`, `files`: the two kinds.
//! - `unwrap`: keys that the hub unwraps.
//! - [`AttestationAgent`]: keeps the event log. `call`: one call over ttrpc.
//! - `error`: [`Error`], and [`Fault`], why the source did not answer.

mod attestation_agent;
mod call;
mod client;
mod error;
mod files;
mod hub;
mod unwrap;

pub use attestation_agent::{AttestationAgent, Extended};
pub use client::{MAX_RESOURCE_BYTES, REQUEST_LIMIT, resource, unwrap_packet};
pub use error::{Error, Fault};

/// The readers of foreign bytes, for the fuzz targets only.
#[doc(hidden)]
pub mod fuzz {
    pub use crate::files::find;
    pub use crate::hub::read as hub_answer;
    pub use crate::unwrap::options;
}
