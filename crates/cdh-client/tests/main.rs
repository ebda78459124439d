//! One program with all integration tests of this crate: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod attestation_agent;
mod hub;
mod sources;
mod support;
mod unwrap;
