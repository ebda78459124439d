//! What the puller makes of registries that misbehave: a table of faults, each with the outcome it
//! must have.
//!
//! A [`row::Row`] is a script for a registry and what a pull from it must come to: the image, with
//! the number of requests that took, or an error of a kind and with certain words. After each row
//! nothing unfinished is in the store, nothing is mounted that should not be, no secret stands in
//! the log or the error, and memory did not grow with what the registry sent.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

#[path = "faults/bodies.rs"]
mod bodies;
#[path = "faults/chunks.rs"]
mod chunks;
#[path = "faults/connections.rs"]
mod connections;
#[path = "faults/heads.rs"]
mod heads;
#[path = "faults/http2.rs"]
mod http2;
#[path = "faults/images.rs"]
mod images;
#[path = "faults/mirrors.rs"]
mod mirrors;
#[path = "faults/place.rs"]
mod place;
#[path = "faults/ranges.rs"]
mod ranges;
#[path = "faults/redirects.rs"]
mod redirects;
#[path = "faults/row.rs"]
mod row;
#[path = "faults/seen.rs"]
mod seen;
#[path = "faults/service.rs"]
mod service;
#[path = "faults/stage.rs"]
mod stage;
#[path = "faults/statuses.rs"]
mod statuses;
mod support;
#[path = "faults/tokens.rs"]
mod tokens;
#[path = "faults/watch.rs"]
mod watch;

use stage::{alone, play};

#[test]
fn privileged_statuses() {
    play("privileged_statuses", statuses::rows);
}

#[test]
fn privileged_tokens() {
    play("privileged_tokens", tokens::rows);
}

#[test]
fn privileged_connections() {
    play("privileged_connections", connections::rows);
}

#[test]
fn privileged_bodies() {
    play("privileged_bodies", bodies::rows);
}

#[test]
fn privileged_images() {
    play("privileged_images", images::rows);
}

#[test]
fn privileged_chunks() {
    play("privileged_chunks", chunks::rows);
}

#[test]
fn privileged_ranges() {
    play("privileged_ranges", ranges::rows);
}

#[test]
fn privileged_redirects() {
    play("privileged_redirects", redirects::rows);
}

#[test]
fn privileged_heads() {
    play("privileged_heads", heads::rows);
}

#[test]
fn privileged_http2() {
    play("privileged_http2", http2::rows);
}

#[test]
fn privileged_mirrors() {
    play("privileged_mirrors", mirrors::rows);
}

#[test]
fn privileged_service_among_bad_registries() {
    if support::is_root("privileged_service_among_bad_registries") {
        let _alone = alone();
        service::play();
    }
}

/// The issue wants sixty; these must not get lost.
#[test]
fn the_table_is_long_enough() {
    let _alone = alone();
    let tables = [
        statuses::rows(),
        tokens::rows(),
        connections::rows(),
        bodies::rows(),
        images::rows(),
        chunks::rows(),
        ranges::rows(),
        redirects::rows(),
        heads::rows(),
        http2::rows(),
        mirrors::rows(),
    ];
    let mut names: Vec<_> = tables.iter().flatten().map(|row| row.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a name is there twice");
    assert!(count >= 200, "{count}");
}
