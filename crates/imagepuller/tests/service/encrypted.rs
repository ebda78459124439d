//! Encrypted images of the real `skopeo` from a real registry: what comes out, and who does not get
//! it.

mod attacks;
mod cached;
mod hub;
mod keys;
pub mod place;
mod tools;
