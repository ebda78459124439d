//! One program with all integration tests of this crate: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod configuration;
mod copy;
mod initdata;
mod machine;
mod program;
mod refresh;
mod sandbox;
mod settings;
