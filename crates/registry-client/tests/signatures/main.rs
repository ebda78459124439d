//! Signatures fetched from registries: where they are looked for, what a registry that lies can do,
//! and every recorded verdict with what is fetched over HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod attacks;
mod places;
mod shelf;
#[path = "../support/mod.rs"]
mod support;
