//! JSON Web Encryption opened, keys of it read from PEM, DER and JWK; no I/O.
//!
//! This is what encrypted images (`ocicrypt`) are made of. All bytes may come from anyone: they are
//! bounded, they never panic, and no error repeats them. The primitives are aws-lc-rs's, and
//! `aes-kw` for key wrap.
//!
//! Not here: encryption, signatures, whether a certificate is good, where keys and texts come from.
//! Algorithms that are not listed are refused by name, never guessed.
//!
//! Begin at [`PrivateKey::read`] and [`Jwe::parse`].
//!
//! - [`key`]: private keys, and what becomes of files that hold something else. [`jwe`]: RFC 7516.
//!   [`certificate`]: whose key it is.

mod algorithm;
pub mod certificate;
mod json;
pub mod jwe;
pub mod key;

pub use jwe::{Jwe, JweError, Opened};
pub use key::{KeyError, PrivateKey};
