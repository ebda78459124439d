//! Invariant: whatever journalctl prints, each line that is told of a sandbox is about it, plain
//! text and of bounded length, and there are few of them.
#![cfg_attr(fuzzing, no_main)]

use kata_configdev::doctor::sandbox::{Joined, MAX_LINE_CHARS, MAX_LINES, journal};
use kata_configdev::sandbox_id::SandboxId;

fuzzing::target!(|bytes: &[u8]| {
    let id = SandboxId::parse("3f1c").expect("an id");
    let mut joined = Joined::default();
    joined.add_log(&journal::entries(bytes), &id);
    for lines in [&joined.wrapper, &joined.shim, &joined.guest] {
        assert!(lines.len() <= MAX_LINES);
        for line in lines {
            assert!(!line.contains(char::is_control));
            // What is shown of one character may be ten.
            assert!(line.chars().count() <= 10 * MAX_LINE_CHARS + 1);
        }
    }
});
