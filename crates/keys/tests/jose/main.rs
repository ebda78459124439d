//! What other programs write is read; what was changed, contradicts itself or is not supported is
//! not.
#![allow(clippy::unwrap_used, reason = "test code")]

mod containers;
mod keys;
mod messages;
mod refusals;
mod support;
mod vector;
