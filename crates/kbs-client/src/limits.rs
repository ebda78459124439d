//! What bounds the time and the size of an answer.

use std::time::Duration;

/// The largest resource, in bytes: a document of credentials, a key, a list of certificates.
/// Kubernetes' secrets end there too.
pub const MAX_RESOURCE_BYTES: usize = 1 << 20;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One request with its whole answer.
    pub request: Duration,
    /// All that one secret needs: each source.
    pub whole: Duration,
}

/// 20 seconds for a request and 60 for the whole. The data hub itself waits 50 seconds for a
/// broker; a broker that needs as long is better asked again by the next pull.
impl Default for Limits {
    fn default() -> Self {
        Self { request: Duration::from_secs(20), whole: Duration::from_secs(60) }
    }
}
