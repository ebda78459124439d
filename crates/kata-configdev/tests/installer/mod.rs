//! The installer on real directories, with secrets mounted as the kubelet mounts them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code: a failed step should stop the test where it is"
)]

mod agent;
mod arrival;
mod check;
mod decryption_keys;
mod docker_configs;
mod document_dir;
mod fitness;
mod install;
mod kata;
mod leavings;
mod machine;
mod namespaces;
mod newer;
mod order;
mod ownership;
mod pod;
mod process;
mod relief;
mod removal;
mod rotation;
mod storm;
mod switch;
mod trust;
mod unit;
mod watching;
