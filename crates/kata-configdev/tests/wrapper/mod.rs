//! The built wrapper in front of a program that waits to be looked at, and in front of the real
//! QEMU.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod node;
mod off;
mod process;

mod factory;
mod inheritance;
mod late;
mod life;
mod migration;
mod place;
mod providers;
mod qemu;
mod refusal;
mod runtimes;
mod shims;
mod tenants;
mod vectors;
