//! One program with all integration tests of this crate: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod meaning;
mod problems;
mod properties;
mod references;
mod repositories;
