//! Private keys, and how the layers of an image are encrypted for them; no I/O, no async.
//!
//! The encryption that skopeo, containerd and CoCo write has no specification but the library that
//! they share, ocicrypt, and its translation into Rust; the modules say which parts are read. A
//! layer is encrypted with a key of its own, and that key is wrapped once for each recipient, in
//! annotations of the layer's descriptor.
//!
//! All bytes may come from anyone: they are bounded, they never panic, and no error repeats what
//! may be secret. The author of an image cannot weaken the cipher: there is one cipher, its HMAC
//! has to be there, and its nonce has to be wrapped. Algorithms and kinds of wrapping that are not
//! read are refused by name, never guessed. The primitives are aws-lc-rs's, and `aes-kw` for key
//! wrap.
//!
//! Not here: encryption, signatures, whether a certificate is good, where keys come from
//! (`registry-config`, `cdh-client`), and that a layer without its key is never taken for a plain
//! one (`imagepuller`).
//!
//! Begin at [`PrivateKey::read`] and [`Encryption::parse`].
//!
//! - `private_key`: private keys, and what becomes of files that hold something else;
//!   [`certificate`]: whose key it is; [`jwe`]: RFC 7516.
//! - `encryption`: the annotations of a layer, and the ways to its key; `unwrap`: which of them it
//!   was, or why none.
//! - [`options`]: what is said about the cipher in public.
//! - [`packet`]: a key wrapped with a key of a key broker.
//! - `layer_key`: a layer's key, which wrappings wrap; [`decryptor`]: the cipher.
//! - `effort`: how much work all that may be.
//! - `json`: the JSON of JOSE; `members`: objects that no two readers read differently.

mod algorithm;
pub mod certificate;
pub mod decryptor;
mod effort;
mod encryption;
mod json;
pub mod jwe;
mod layer_key;
mod members;
pub mod options;
pub mod packet;
pub mod private_key;
mod unwrap;
#[cfg(test)]
mod vector;

pub use decryptor::{Decryptor, Forged};
pub use effort::Effort;
pub use encryption::{
    Encryption, InvalidEncryption, MAX_ANNOTATION_BYTES, MAX_ENTRIES, MAX_JWE_BYTES, MAX_RECIPIENTS,
};
pub use jwe::{Jwe, Opened};
pub use layer_key::LayerKey;
pub use members::InvalidJson;
pub use options::{InvalidOptions, PublicOptions};
pub use packet::{InvalidPacket, Packet};
pub use private_key::{KeyError, PrivateKey};
pub use unwrap::{Refused, Unlocked, UnwrapError};
