//! What a process does once, so that no connection waits for it. Alone in its file: of a process
//! that has its randomness nothing could be told.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;
use std::{fs, thread};

use rustls::crypto::{SecureRandom, aws_lc_rs};

/// The nanoseconds that this thread has had a processor, whatever else the machine does. The kernel
/// counts them when the thread gives its processor away.
fn now() -> u64 {
    thread::sleep(Duration::from_millis(1));
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split(' ').next().unwrap().parse().unwrap()
}

/// The first connection of a service was once kept waiting for 30 ms of computing, half of what a
/// small image took.
#[test]
fn no_connection_waits_for_randomness_that_was_gathered() {
    fn time(work: impl Fn()) -> u64 {
        let begun = now();
        work();
        now() - begun
    }
    // As in a service: gathered by a thread that makes no connections.
    let gathering = thread::spawn(|| time(registry_client::gather_randomness));
    let gathered = gathering.join().unwrap();
    let random: &dyn SecureRandom = aws_lc_rs::default_provider().secure_random;
    let used = time(|| random.fill(&mut [0; 32]).unwrap());
    assert!(used * 5 < gathered, "{gathered} ns before, then {used} ns");
}
