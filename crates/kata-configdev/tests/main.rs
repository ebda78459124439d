//! One program with all integration tests of this crate: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod attach;
mod cases;
mod command;
mod credential_provider;
mod doctor;
mod explain_sandbox;
mod inspect;
mod install;
mod installer;
mod man;
mod provided_attach;
mod route;
mod update;
mod wrapper;
