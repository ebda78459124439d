//! What the puller makes of registries that misbehave: a table of faults, each with the outcome it
//! must have.
//!
//! A [`row::Row`] is a script for a registry and what a pull from it must come to: the image, with
//! the number of requests that took, or an error of a kind and with certain words. After each row
//! nothing unfinished is in the store, nothing is mounted that should not be, no secret stands in
//! the log or the error, and memory did not grow with what the registry sent.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod bodies;
mod chunks;
mod connections;
mod heads;
mod http2;
mod images;
mod mirrors;
mod place;
mod ranges;
mod redirects;
mod row;
mod seen;
mod service;
mod stage;
mod statuses;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
mod watch;

use stage::{alone, play};

#[test]
fn privileged_statuses() {
    play(statuses::rows);
}

#[test]
fn privileged_tokens() {
    play(tokens::rows);
}

#[test]
fn privileged_connections() {
    play(connections::rows);
}

#[test]
fn privileged_bodies() {
    play(bodies::rows);
}

#[test]
fn privileged_images() {
    play(images::rows);
}

#[test]
fn privileged_chunks() {
    play(chunks::rows);
}

#[test]
fn privileged_ranges() {
    play(ranges::rows);
}

#[test]
fn privileged_redirects() {
    play(redirects::rows);
}

#[test]
fn privileged_heads() {
    play(heads::rows);
}

#[test]
fn privileged_http2() {
    play(http2::rows);
}

#[test]
fn privileged_mirrors() {
    play(mirrors::rows);
}

#[test]
fn privileged_service_among_bad_registries() {
    vm_harness::needs_root!();
    let _alone = alone();
    service::play();
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
