//! Every verdict of skopeo and cosign that was recorded, and ours.
//!
//! No row is left out. Rows that differ are listed one by one with the reason, and each reason is a
//! rule too, which must hold for the row: it is told by what was signed, by the policy and by the
//! name, so that it holds for further rows of its kind. `FURTHER_VERDICTS=FOLDER` runs such rows,
//! in files of the same names and form.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "test code")]

mod asked;
mod attacks;
mod conditions;
mod cosign;
mod evidence;
mod registry;
mod signed_here;
mod skopeo;
mod tally;
mod written;

use tally::{Difference, Judged, Tally};
