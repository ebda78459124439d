//! The program: its arguments, its sockets, and what it tells those who started it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

#[path = "../support/mod.rs"]
mod support;

mod activation;
mod cli;
mod forward;
mod front;
mod hub;
mod notify;
mod probe;
mod pull_command;
mod recorded;
mod served;
mod taken;
