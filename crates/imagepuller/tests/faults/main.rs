//! What the puller makes of registries that misbehave: a table of faults, each with the outcome it
//! must have.
//!
//! A [`row::Row`] is a script for a registry and what a pull from it must come to: the image, with
//! the number of requests that took, or an error of a kind and with certain words. After each row
//! nothing unfinished is in the store, nothing is mounted that should not be, no secret stands in
//! the log or the error, and memory did not grow with what the registry sent.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::collections::BTreeSet;

#[path = "../support/mod.rs"]
mod support;

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
mod tokens;
mod watch;

use stage::{alone, play};

/// A test for each table, and all tables.
macro_rules! tables {
    ($(#[test] fn $test:ident($table:ident);)+) => {
        $(
            #[test]
            fn $test() {
                play($table::rows);
            }
        )+

        fn all() -> Vec<row::Row> {
            [$($table::rows()),+].into_iter().flatten().collect()
        }
    };
}

tables! {
    #[test]
    fn privileged_statuses(statuses);
    #[test]
    fn privileged_tokens(tokens);
    #[test]
    fn privileged_connections(connections);
    #[test]
    fn privileged_bodies(bodies);
    #[test]
    fn privileged_images(images);
    #[test]
    fn privileged_chunks(chunks);
    #[test]
    fn privileged_ranges(ranges);
    #[test]
    fn privileged_redirects(redirects);
    #[test]
    fn privileged_heads(heads);
    #[test]
    fn privileged_http2(http2);
    #[test]
    fn privileged_mirrors(mirrors);
}

#[test]
fn privileged_service_among_bad_registries() {
    vm_harness::needs_root!();
    let _alone = alone();
    service::play();
}

/// `FAULT_ROW` names one row.
#[test]
fn each_name_is_there_once() {
    let _alone = alone();
    let rows = all();
    let names: BTreeSet<_> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len());
}
