//! Signatures fetched from registries: where they are looked for, what a registry that lies can do,
//! and every recorded verdict with what is fetched over HTTP.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "test code")]

mod attacks;
mod found;
mod places;
mod real;
mod registry;
mod shelf;

// What programs said of the recorded images, judged here with what `registry` fetches.
#[path = "../../../image-policy/tests/verdicts/asked.rs"]
mod asked;
#[path = "../../../image-policy/tests/verdicts/cosign/mod.rs"]
mod cosign;
#[path = "../../../image-policy/tests/verdicts/evidence.rs"]
mod evidence;
#[path = "../../../image-policy/tests/verdicts/registry.rs"]
mod recorded;
#[path = "../../../image-policy/tests/verdicts/skopeo/mod.rs"]
mod skopeo;
#[path = "../../../image-policy/tests/verdicts/tally.rs"]
mod tally;
#[path = "../../../image-policy/tests/verdicts/written.rs"]
mod written;

use tally::{Difference, Judged, Tally};
