//! Where the wrapper stands and where it is started: links in its path, and bundles of every kind.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::wrapper::node::{ANNOTATION, Node};
use crate::wrapper::process::{WAITING_PROGRAM, Waiting};

const SANDBOX: [&str; 4] = ["-name", "sandbox-0123", "-machine", "q35"];

fn node() -> Node {
    let node = Node::new("/bin/true");
    node.program("qemu", "700", WAITING_PROGRAM);
    node.set_qemu(node.path("qemu"));
    node
}

/// How many arguments the wrapper adds when `command` starts it.
fn added(command: Command) -> usize {
    added_to(command, &SANDBOX)
}

fn added_to(mut command: Command, sandbox: &[&str]) -> usize {
    command.args(sandbox);
    let waiting = Waiting::start(command);
    let found = waiting.arguments();
    let (status, stderr) = waiting.finish();
    assert_eq!((status.code(), stderr.as_str()), (Some(7), ""));
    let (theirs, ours) = found.split_at(sandbox.len());
    assert_eq!(theirs, sandbox.iter().map(OsString::from).collect::<Vec<_>>());
    ours.len()
}

/// Nothing depends on the name by which the wrapper is called: Kata resolves links in the path, and
/// others may not.
#[test]
fn the_wrapper_works_under_any_name() {
    let node = node();
    symlink(env!("CARGO_BIN_EXE_kata-configdev-qemu"), node.path("bundle/link")).unwrap();
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

/// What containerd's sandbox API leaves: a directory without a spec, and an id of 64 digits.
#[test]
fn without_a_spec_the_settings_decide() {
    let node = node();
    std::fs::remove_file(node.path("bundle/config.json")).unwrap();
    let settings = std::fs::read_to_string(node.path("settings.toml")).unwrap();
    let nobody_chooses = settings.replace("annotation-allow", "# ");
    let id = format!("sandbox-{}", "59f688fcc63406ed".repeat(4));
    let sandbox = ["-name", &id, "-machine", "q35"];
    for (settings, meaning, expected) in [
        (&settings, "", None),
        (&nobody_chooses, "", Some(6)),
        (&nobody_chooses, "fail", None),
        (&settings, "node", Some(6)),
        (&settings, "none", Some(0)),
    ] {
        let line = format!("without-spec = {meaning:?}\n");
        let line = if meaning.is_empty() { "" } else { &line };
        node.write("settings.toml", format!("{settings}{line}"));
        let mut command = node.wrapper();
        if let Some(expected) = expected {
            assert_eq!(added_to(command, &sandbox), expected, "{line}");
            continue;
        }
        let output = command.args(sandbox).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(65), "{stderr}");
        let bundle = node.path("bundle").canonicalize().unwrap();
        let words = format!("{} has no config.json: set without-spec", bundle.display());
        assert!(stderr.contains(&words), "{stderr}");
    }
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
    inner.args(SANDBOX).current_dir(node.path("bundle/inner"));
    let status = inner.output().unwrap().status;
    assert_eq!(status.code(), Some(65), "a spec above the bundle is not the sandbox's");
    // Other annotations do not matter, whatever they say.
    node.write(
        "bundle/config.json",
        format!(r#"{{"annotations":{{"x.{ANNOTATION}":"/absent","x":"{ANNOTATION}"}}}}"#),
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
        let output = node.wrapper().args(["-name", name, "-machine", "q35"]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with(&format!("kata-configdev-qemu: {expected}failed to ")),
            "{stderr}"
        );
    }
}
