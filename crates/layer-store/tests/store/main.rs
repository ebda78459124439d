//! The store on real file systems, with real mounts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code: a panic is how a test fails"
)]

mod collecting;
mod fixture;
mod flatten;
mod full;
mod killed;
mod mounts;
mod untyped;
