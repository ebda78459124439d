//! How the layers of an image are encrypted: options, key wrappings and the cipher; no I/O, no
//! async.
//!
//! The encryption that skopeo, containerd and CoCo write has no specification but the library that
//! they share, ocicrypt, and its translation into Rust; the modules say which parts are read. A
//! layer is encrypted with a key of its own, and that key is wrapped once for each recipient, in
//! annotations of the layer's descriptor.
//!
//! Everything here comes from an image, whose author is not trusted with more than the image. It
//! cannot weaken the cipher: there is one cipher, its HMAC has to be there, and its nonce has to be
//! wrapped. Three kinds of wrapping are not read; where a layer has no other, the error names them
//! (see [`Scheme`]).
//!
//! Not here: where keys come from (`registry-config`, `kbs-client`), how JWE is opened (`jose`), and
//! that a layer without its key is never taken for a plain one (`imagepuller`).
//!
//! Begin at [`Encryption::parse`].
//!
//! - `encryption`: the annotations of a layer, and the ways to its key; `unwrap`: which of them it
//!   was, or why none.
//! - [`options`]: what is said about the cipher in public, and what only with a key.
//! - [`packet`]: a key wrapped with a key of a key broker.
//! - `layer_key`: a layer's key; [`decryptor`]: the cipher.
//! - `scheme`: the ways that are not read; `effort`: how much work all that may be.
//! - `json`: objects that no two readers read differently.

pub mod decryptor;
mod effort;
mod encryption;
mod json;
mod layer_key;
pub mod options;
pub mod packet;
mod scheme;
mod unwrap;
#[cfg(test)]
mod vector;

pub use decryptor::{Decryptor, Forged};
pub use effort::Effort;
pub use encryption::{
    Encryption, InvalidEncryption, MAX_ANNOTATION_BYTES, MAX_ENTRIES, MAX_JWE_BYTES, MAX_RECIPIENTS,
};
pub use json::InvalidJson;
pub use layer_key::LayerKey;
pub use options::{InvalidOptions, PublicOptions};
pub use packet::{InvalidPacket, Packet};
pub use scheme::Scheme;
pub use unwrap::{How, Refused, Unlocked, UnwrapError, Way};
