//! A copy of a process with one thread, hence without a harness.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use linux_sys::worker::{self, Ended, Worker};

const LONG: Duration = Duration::from_secs(60);

fn main() {
    // cargo nextest asks for the names of the tests, and then for those to ignore.
    let asked: Vec<_> = std::env::args().collect();
    if asked.iter().any(|word| word == "--list") {
        if !asked.iter().any(|word| word == "--ignored") {
            println!("a_worker_has_an_exit_code_or_is_killed: test");
        }
        return;
    }
    for code in [0, 7, 255] {
        let mut worker = worker::start(|| code).unwrap();
        assert_eq!(worker.wait(LONG).unwrap(), Some(Ended::Code(code)));
    }
    let mut worker = worker::start(|| panic!("shown, and no more than that")).unwrap();
    assert_eq!(worker.wait(LONG).unwrap(), Some(Ended::Crashed));

    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut worker = worker::start(|| {
        thread::sleep(LONG);
        0
    })
    .unwrap();
    drop(theirs);
    assert_eq!(worker.wait(Duration::ZERO).unwrap(), None);
    worker.kill();
    // The other end was the copy's alone.
    assert_eq!(ours.read(&mut [0]).unwrap(), 0);

    let with_threads = thread::spawn(|| worker::start(|| 0).map(Worker::kill));
    let error = with_threads.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
