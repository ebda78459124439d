//! What bounds a message.

/// The longest message, in bytes: a mebibyte of content (the limit of a Kubernetes secret, and so
/// of what a key broker is given) in base64url with its headers. A layer's options take about 500.
/// Raising it breaks nothing.
pub const MAX_TEXT_BYTES: usize = 3 << 19;

/// The longest protected header, in bytes as it is written. Real ones have some hundred.
pub const MAX_HEADER_BYTES: usize = 16 << 10;

/// The longest wrapped key, in bytes: the output of RSA with 8192 bits.
pub const MAX_ENCRYPTED_KEY_BYTES: usize = 1024;

/// The longest name of a party in a key agreement (`apu`, `apv`), in bytes. It is hashed once for
/// each key that is tried.
pub const MAX_PARTY_BYTES: usize = 256;

/// The most recipients of a message. Each one costs an operation with every private key that fits
/// it.
pub const MAX_RECIPIENTS: usize = 32;
