//! One program with all integration tests of this crate: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod cases;
mod limits;
mod meaning;
mod properties;
mod repositories;

const ROOT: &str = include_str!("data/root.pem");
