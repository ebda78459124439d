//! Tells the kubelet, a probe and a collector of metrics how a node is.
//!
//! Whoever looks after the node notes what it found ([`Status::note`]). Three ways of asking lead
//! to that:
//!
//! - [`endpoint`]: `/healthz` and `/readyz` for the kubelet, `/metrics` for a collector, each over
//!   a very small part of HTTP/1.1 ([`http`]), on addresses of their own.
//! - [`probe`]: a socket without a place in any file system, for a command in the same container.
//!   It has the reason also where everybody on the network can ask the kubelet's questions.
//!
//! Not here: what makes a node ready, and every file. Nothing here knows a secret; what is noted
//! must have none.
//!
//! - [`status`]: what is known. [`metrics`]: the numbers in it, and their text.

pub mod endpoint;
mod error;
pub mod http;
pub mod metrics;
pub mod probe;
pub mod status;

pub use endpoint::{Detail, health, metrics as metrics_endpoint};
pub use error::Error;
pub use metrics::Numbers;
pub use status::Status;
