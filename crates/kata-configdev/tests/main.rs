//! One program with all integration tests of this crate: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod attach;
mod cases;
mod command;
mod credential_provider;
mod doctor;
mod explain_sandbox;
mod import_by_namespace;
mod import_containerd;
mod import_decryption_secret;
mod import_docker_config;
mod import_registry_files;
mod import_repositories;
mod inspect;
mod install;
mod installer;
mod man;
mod provided_attach;
mod route;
mod update;
mod wrapper;
