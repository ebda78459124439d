//! One program with all integration tests of this crate: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod accounts;
mod authentication;
mod confided;
mod parts;
mod proxy;
mod randomness;
mod readme;
mod redirect;
mod retry;
mod roots;
mod signatures;
mod support;
mod tls;
mod transport;
