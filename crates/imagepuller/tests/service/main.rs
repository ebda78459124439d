//! The whole service against a real registry.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

#[path = "../support/mod.rs"]
mod support;
mod walk;

mod authentication;
mod concurrency;
mod encrypted;
mod event_log;
mod fidelity;
mod hang_up;
mod killed;
mod mounted_over;
mod overlapping;
mod proxy;
mod pull;
mod store_commands;
