//! Encrypted images of the real `skopeo` from a real registry: what comes out, and who does not get
//! it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

#[path = "../support/mod.rs"]
mod support;
#[path = "../fidelity/walk.rs"]
mod walk;

mod attacks;
mod cached;
mod keys;
mod place;
