//! Archives unpacked through the entry that the program uses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod attributes;
mod digests;
mod limits;
mod odd;
mod order;
mod sparse;
mod support;
