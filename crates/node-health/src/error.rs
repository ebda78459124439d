//! What can go wrong.

use std::io;
use std::net::SocketAddr;

/// Why nobody can ask, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address cannot be listened on.
    #[error("answer {what} on {address}: {source}")]
    Listen {
        /// What would be answered there.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The socket of the probe cannot be had.
    #[error("answer probes: {0}")]
    Probe(io::Error),
}
