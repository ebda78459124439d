//! Sealed secrets: `sealed.` and a compact JWS (RFC 7515) whose payload says where the secret is,
//! or holds it encrypted.
//!
//! Their owner signs them, so a carrier, such as our packed document, cannot point one elsewhere.
//! The key that verifies them is a resource itself: a carrier could name any key that the broker
//! gives out, but has no private key to sign with.
//!
//! Specification: "Sealed Secrets" of the Confidential Containers guest components, version 0.1.0.
//! Signatures are always checked.
//!
//! - `payload`: what is signed. `envelope`: a secret that is encrypted in it.

pub mod envelope;
pub mod payload;
