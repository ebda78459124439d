//! A bug in the program, played by a platform that panics.
//!
//! A panic once ended the program with 101 and the standard message: no policy stood in
//! `/run/measured-cfg`, the guest went on without one, and the message could quote the disk it
//! failed on. The hook is for a whole process, hence this program.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod machine;

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use initdata::Field;
use initdata_processor::boot::run_on;
use initdata_processor::bug;
use initdata_processor::error::Error;
use initdata_processor::journal::{Journal, Log};
use machine::{CONFIGURATION, DOCUMENT, Machine, UNVERIFIED, configuration, initdata};

const LINE: u32 = line!() + 3;

fn broken() -> Result<Option<Field>, Error> {
    panic!("a message that quotes c2VjcmV0");
}

#[test]
fn a_panic_ends_in_the_deny_policy() {
    bug::hide_messages();
    let machine =
        Machine::new().disk("vda", &initdata(DOCUMENT)).disk("vdb", &configuration(CONFIGURATION));
    let mut sink = Vec::new();
    let mut journal = Journal::new(&mut sink, Log::Stderr, true);
    assert_eq!(run_on(broken, &machine.options, &mut journal), 70);

    let reason = format!("internal error at {}:{LINE}", file!());
    let policy = machine.deny_policy();
    let insecure = machine.insecure().unwrap();
    assert_eq!(insecure.len(), 1, "no password where nothing may run");
    let log = String::from_utf8(sink).unwrap();
    for text in [&policy, &insecure["imagepuller.error"], &log] {
        assert!(text.contains(&reason), "{reason}\n{text}");
        assert!(!text.contains("c2VjcmV0"), "{text}");
    }
    assert!(log.contains("deny-all policy in place"));
}

/// A log that panics at the line that tells of the configuration, once.
struct Fragile {
    text: Vec<u8>,
    broken: bool,
}

impl Write for Fragile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend(bytes);
        if !self.broken && self.text.ends_with(b"not verified, by design\n") {
            self.broken = true;
            panic!("a message that quotes c2VjcmV0");
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_late_panic_takes_back_what_was_placed() {
    bug::hide_messages();
    let machine = Machine::new()
        .cmdline(UNVERIFIED)
        .disk("vda", &initdata(DOCUMENT))
        .disk("vdb", &configuration(CONFIGURATION));
    let mut sink = Fragile { text: Vec::new(), broken: false };
    let mut journal = Journal::new(&mut sink, Log::Stderr, false);
    assert_eq!(run_on(|| Ok(None), &machine.options, &mut journal), 70);
    assert!(sink.broken, "both were in place");
    assert!(machine.deny_policy().contains("internal error at "));
    let insecure = machine.insecure().unwrap();
    assert_eq!(insecure.keys().collect::<Vec<_>>(), ["imagepuller.error"]);
}

/// The first test once more, in a process of its own.
fn again(stderr: Stdio) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_panic_ends_in_the_deny_policy", "--nocapture"])
        .stderr(stderr)
        .output()
        .unwrap()
}

#[test]
fn a_panic_prints_its_place_and_not_its_message() {
    let output = again(Stdio::piped());
    assert!(output.status.success(), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let line =
        format!("initdata-processor: internal error at {}:{LINE}: please report it\n", file!());
    assert!(stderr.contains(&line), "{stderr}");
    assert!(!stderr.contains("c2VjcmV0"), "{stderr}");
}

#[test]
fn a_log_that_cannot_be_written_does_not_stop_the_policy() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = again(full.into());
    assert!(output.status.success(), "{output:?}");
}
