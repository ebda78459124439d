//! Where the wrapper stands and where it is started: links in its path, and bundles of every kind.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::node::{ANNOTATION, Node};
use crate::process::{WAITING_PROGRAM, Waiting};

const SANDBOX: [&str; 4] = ["-name", "sandbox-0123", "-machine", "q35"];

fn node() -> Node {
    let node = Node::new("/bin/true");
    node.program("qemu", "700", WAITING_PROGRAM);
    node.set_qemu(node.path("qemu"));
    node
}

/// How many arguments the wrapper adds when `command` starts it.
fn added(mut command: Command) -> usize {
    command.args(SANDBOX);
    let waiting = Waiting::start(command);
    let found = waiting.arguments();
    let (status, stderr) = waiting.finish();
    assert_eq!((status.code(), stderr.as_str()), (Some(7), ""));
    assert_eq!(found[..SANDBOX.len()], SANDBOX.map(OsString::from));
    found.len() - SANDBOX.len()
}

/// Nothing depends on the name by which the wrapper is called: Kata resolves links in the path, and
/// others may not.
#[test]
fn the_wrapper_works_under_any_name() {
    let node = node();
    symlink(
        env!("CARGO_BIN_EXE_kata-configdev-qemu"),
        node.path("bundle/link"),
    )
    .unwrap();
    symlink("link", node.path("bundle/qemu-system-x86_64")).unwrap();
    for path in [node.path("bundle/qemu-system-x86_64"), "./link".into()] {
        let mut command = Command::new(path);
        node.place(&mut command);
        assert_eq!(added(command), 6);
    }
    for name in ["qemu-system-x86_64", "", "-name"] {
        let mut command = node.wrapper();
        command.arg0(name);
        assert_eq!(added(command), 6, "{name:?}");
    }
}

/// A link to the wrapper as QEMU would call the wrapper for ever.
#[test]
fn the_wrapper_behind_a_link_is_not_taken_for_qemu() {
    let node = node();
    symlink(env!("CARGO_BIN_EXE_kata-configdev-qemu"), node.path("link")).unwrap();
    node.set_qemu(node.path("link"));
    let output = node.wrapper().args(SANDBOX).output().unwrap();
    assert_eq!(output.status.code(), Some(65));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("this wrapper itself"), "{stderr}");
}

/// A shim that speaks containerd's sandbox API leaves no spec, and Kata's Rust runtime may stand in
/// `/`.
#[test]
fn without_a_spec_the_node_decides() {
    let node = node();
    assert!(!node.path("bundle/config.json").exists());
    assert_eq!(added(node.wrapper()), 6);
    let mut elsewhere = node.wrapper();
    elsewhere.current_dir("/");
    assert_eq!(added(elsewhere), 6);
}

#[test]
fn a_spec_is_found_through_links_and_only_in_the_bundle() {
    let node = node();
    node.annotate("");
    assert_eq!(added(node.wrapper()), 0, "the twin that is read");
    // The bundle itself may be a link, as may be the spec: both are the container engine's.
    symlink("bundle", node.path("linked")).unwrap();
    let mut linked = node.wrapper();
    linked.current_dir(node.path("linked"));
    assert_eq!(added(linked), 0);
    std::fs::create_dir(node.path("bundle/inner")).unwrap();
    let mut inner = node.wrapper();
    inner.current_dir(node.path("bundle/inner"));
    assert_eq!(
        added(inner),
        6,
        "a spec above the bundle is not the sandbox's"
    );
    // Other annotations do not matter, whatever they say.
    node.write(
        "bundle/config.json",
        format!(r#"{{"annotations":{{"{ANNOTATION}.x":"/absent","x":"{ANNOTATION}"}}}}"#),
    );
    assert_eq!(added(node.wrapper()), 6);
}

/// The line of a refused sandbox names it as QEMU would, with single commas and without other
/// options.
#[test]
fn a_refusal_names_the_sandbox() {
    let node = node();
    std::fs::remove_file(node.path("document.toml")).unwrap();
    for (name, expected) in [
        ("sandbox-0123,debug-threads=on", "sandbox 0123: "),
        ("sandbox-a,,b,debug-threads=on", "sandbox a,b: "),
    ] {
        let output = node
            .wrapper()
            .args(["-name", name, "-machine", "q35"])
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with(&format!("kata-configdev-qemu: {expected}failed to ")),
            "{stderr}"
        );
    }
}
