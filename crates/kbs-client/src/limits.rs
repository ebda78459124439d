//! What bounds the time and the size of an answer.

use std::time::Duration;

/// The largest resource, in bytes: a document of credentials, a key, a list of certificates.
/// Kubernetes' secrets end there too.
pub const MAX_RESOURCE_BYTES: usize = 1 << 20;

/// How long one answer may take. The data hub itself waits 50 seconds for a broker; a broker that
/// needs as long is better asked again by the next pull.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(20);
