//! A document that is no file.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use fault_registry::Script;

use super::{Site, check};
use crate::support::imagepuller;

/// Who keeps a password off the disk gives it through a pipe, which was "not a regular file".
#[test]
fn privileged_a_pipe_is_a_document() {
    vm_harness::needs_root!();
    let site = Site::start(Script::new());
    let document = fs::read(site.directory.path().join("imagepuller.toml")).unwrap();
    let piped = |text: &[u8]| {
        let mut child = imagepuller(["pull", "--config", "/dev/stdin", "--output"])
            .arg(site.output())
            .arg(site.image())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may hang up at what is too long.
        let _ = child.stdin.take().unwrap().write_all(text);
        child.wait_with_output().unwrap()
    };
    let long = piped(&vec![b'#'; (1 << 20) + 1]);
    let error = String::from_utf8_lossy(&long.stderr);
    assert_eq!(long.status.code(), Some(65), "{error}");
    assert!(
        error.contains("/dev/stdin: it has more than 1048576 bytes"),
        "{error}"
    );
    let pulled = piped(&document);
    let error = String::from_utf8_lossy(&pulled.stderr);
    assert!(pulled.status.success(), "{error}");
    check(&site.output());
}
