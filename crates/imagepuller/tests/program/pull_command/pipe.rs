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
    let piped_as = |names: &[&str], text: &[u8]| {
        let mut child = imagepuller(["pull", "--config", "/dev/stdin"])
            .args(names)
            .arg("--output")
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
    let piped = |text: &[u8]| piped_as(&[], text);
    let long = piped(&vec![b'#'; (1 << 20) + 1]);
    let error = String::from_utf8_lossy(&long.stderr);
    assert_eq!(long.status.code(), Some(65), "{error}");
    assert!(error.contains("/dev/stdin: it has more than 1048576 bytes"), "{error}");
    // What is wrong in it once had the name of a file in memory.
    let wrong = piped(b"[registries]\nnonsense = 1\n");
    let error = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(65), "{error}");
    assert!(error.contains("/dev/stdin"), "{error}");
    assert!(!error.contains("/proc/self/fd"), "{error}");
    for same in ["/dev/stdin", "/dev/fd/0"] {
        let twice = piped_as(&["--measured", same], &document);
        let error = String::from_utf8_lossy(&twice.stderr);
        assert_eq!(twice.status.code(), Some(65), "{error}");
        assert!(error.contains("named twice"), "{error}");
    }
    let pulled = piped(&document);
    let error = String::from_utf8_lossy(&pulled.stderr);
    assert!(pulled.status.success(), "{error}");
    check(&site.output());
}
