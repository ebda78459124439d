//! A copy of a process with one thread, hence without a harness.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use linux_sys::worker::{self, MAX_ANSWER_BYTES, Worker};

const LONG: Duration = Duration::from_secs(60);

fn main() {
    // cargo nextest asks for the names of the tests, and then for those to ignore.
    let asked: Vec<_> = std::env::args().collect();
    if asked.iter().any(|word| word == "--list") {
        if !asked.iter().any(|word| word == "--ignored") {
            println!("a_worker_answers_says_where_it_is_and_ends: test");
        }
        return;
    }
    for (answer, expected) in [
        (b"done".to_vec(), b"done".to_vec()),
        (vec![7; 99_999], vec![7; MAX_ANSWER_BYTES]),
        (Vec::new(), Vec::new()),
    ] {
        let mut worker = worker::start(|_| answer).unwrap();
        assert_eq!(worker.wait(LONG).unwrap(), Some(expected));
        worker.end();
    }
    let mut worker = worker::start(|_| panic!("shown, and no more than that")).unwrap();
    assert_eq!(worker.wait(LONG).unwrap(), Some(Vec::new()));
    worker.end();

    let mut worker = worker::start(|place| {
        place.set("a-name-that-is-longer-than-the-place-has-room-for");
        place.set("vdb");
        thread::sleep(LONG);
        b"too late".to_vec()
    })
    .unwrap();
    while worker.place().get() != "vdb" {
        thread::yield_now();
    }
    assert_eq!(worker.wait(Duration::ZERO).unwrap(), None);
    worker.end();

    // One that somebody has taken over: it says something wherever it can, and stays.
    let mut worker = worker::start(|place| {
        for mut sink in inherited() {
            let _ = sink.write(b"x");
        }
        place.set("said");
        thread::sleep(LONG);
        b"too late".to_vec()
    })
    .unwrap();
    while worker.place().get() != "said" {
        thread::yield_now();
    }
    assert_eq!(worker.wait(Duration::ZERO).unwrap(), None);
    worker.end();

    let with_threads = thread::spawn(|| worker::start(|_| Vec::new()).map(Worker::end));
    let error = with_threads.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

/// Every pipe that this process has open for writing, but for the usual three descriptors.
fn inherited() -> Vec<File> {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let paths = descriptors.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| !["0", "1", "2"].iter().any(|usual| path.ends_with(usual)))
        .filter(|path| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"))
        })
        .filter_map(|path| OpenOptions::new().write(true).open(path).ok())
        .collect()
}
