//! Whether the client certificate of a document can be used.

use registry_config::ClientIdentity;
use zeroize::Zeroize as _;

/// Why TLS would not take it, as a fragment; nothing where it would.
#[must_use]
pub fn fault(client: &ClientIdentity) -> Option<&'static str> {
    let Some(mut key) = client.key() else {
        return Some("the private key cannot be read");
    };
    let found = client
        .chain()
        .first()
        .and_then(|certificate| keys::certificate::belongs_to(key.secret_der(), certificate));
    key.zeroize();
    match found {
        Some(true) => None,
        Some(false) => Some("\"client-key\" is not the key of \"client-cert\""),
        None => Some(
            "the certificate cannot be read, or its key is of another kind than RSA, Ed25519, or \
            EC on P-256, P-384 or P-521",
        ),
    }
}
