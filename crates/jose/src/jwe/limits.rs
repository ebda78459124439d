//! What bounds a message.

/// How long a message may be, in bytes: a mebibyte of content, which is what a Kubernetes secret
/// may have and so what a key broker may be given, in base64url and with its headers. A layer's
/// options take half a thousand. Raising it breaks nothing.
pub const MAX_TEXT_BYTES: usize = 3 << 19;

/// How long a protected header may be, in bytes as it is written. Real ones have some hundred.
pub const MAX_HEADER_BYTES: usize = 16 << 10;

/// How long a wrapped key may be, in bytes: what RSA with 8192 bits makes of it.
pub const MAX_ENCRYPTED_KEY_BYTES: usize = 1024;

/// How long what a party of a key agreement is called (`apu`, `apv`) may be, in bytes. It is hashed
/// once for every key that is tried.
pub const MAX_PARTY_BYTES: usize = 256;

/// How many recipients a message may have. Each one costs an operation with every private key that
/// fits it.
pub const MAX_RECIPIENTS: usize = 32;
