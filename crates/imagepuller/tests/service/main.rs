//! The whole service against a real registry.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

#[path = "../support/mod.rs"]
mod support;

mod authentication;
mod client_certificate;
mod concurrency;
mod core_file;
mod empty;
mod encrypted;
mod event_log;
mod fidelity;
mod full;
mod hang_up;
mod image_policy;
mod joined;
mod killed;
mod late_network;
mod limits;
mod linger;
mod local_hosts;
mod mounted_over;
mod overlapping;
mod pins;
mod proxy;
mod pull;
mod read_ahead;
mod refresh;
mod rfc011;
mod status;
mod stored;
mod what_came;
