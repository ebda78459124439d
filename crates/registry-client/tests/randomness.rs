//! What a process does once, so that no connection waits for it. Alone in its file: of a process
//! that has its randomness nothing could be told.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;

use rustls::crypto::{SecureRandom, aws_lc_rs};

/// The nanoseconds that this thread has had a processor, whatever else the machine does.
fn now() -> u64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split(' ').next().unwrap().parse().unwrap()
}

/// The first connection of a service was once kept waiting for 30 ms of computing, half of what a
/// small image took.
#[test]
fn no_connection_waits_for_randomness_that_was_gathered() {
    let time = |work: &dyn Fn()| {
        let begun = now();
        work();
        now() - begun
    };
    let gathered = time(&registry_client::gather_randomness);
    let random: &dyn SecureRandom = aws_lc_rs::default_provider().secure_random;
    let used = time(&|| random.fill(&mut [0; 32]).unwrap());
    assert!(used * 5 < gathered, "{gathered} ns before, then {used} ns");
}
