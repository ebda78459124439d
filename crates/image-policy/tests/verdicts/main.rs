//! Every verdict of skopeo and cosign that was recorded, and ours.
//!
//! Rows that differ are listed one by one with the reason, and a listed row that does not differ
//! fails the test, so that the lists stay true.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod attacks;
mod conditions;
mod cosign;
mod registry;
mod skopeo;
mod tally;

use tally::{Difference, Tally};
