//! Sandboxes that must not start: one line says why, and QEMU is never reached.

use std::ffi::OsString;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use kata_configdev::invocation::Invocation;

use crate::node::{ANNOTATION, Node, PASSWORD};
use crate::shims::{GoShim, Heard, PATIENCE, rust_shim};

const SANDBOX: [&str; 4] = ["-name", "sandbox-0123", "-machine", "q35,accel=tcg"];

/// What tells the Rust runtime's command lines from all others.
const RUST_SANDBOX: [&str; 4] = [
    "-name",
    "sandbox-0123",
    "-machine",
    "q35,accel=tcg,memory-backend=entire-guest-memory",
];

/// Runs the wrapper, whose QEMU would leave a trace on standard output.
fn run(node: &Node, arguments: &[&str]) -> Output {
    node.wrapper()
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The wrapper, started for a sandbox with the usual arguments.
fn sandbox(node: &Node) -> Command {
    let mut command = node.wrapper();
    command.args(SANDBOX);
    command
}

/// Requires what [`assert_refusal`] says of the wrapper with `arguments`.
fn assert_refused(node: &Node, arguments: &[&str], code: i32, parts: &[&str]) {
    let mut command = node.wrapper();
    command.args(arguments);
    assert_refusal(node, command, code, parts);
}

/// Requires exit code `code` and exactly one line that begins with the program and the sandbox and
/// has all of `parts`: on standard error, and as the error that the Go runtime gets.
fn assert_refusal(node: &Node, command: Command, code: i32, parts: &[&str]) {
    let mut shim = GoShim::start(node, command);
    let heard = shim.waits(PATIENCE);
    let (after, output) = shim.ends();
    println!("{after:?}: {heard:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty(), "QEMU was started");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.ends_with('\n'));
    assert_eq!(heard, Heard::Error(stderr.trim_end().into()));
    assert!(
        stderr.starts_with("kata-configdev-qemu: sandbox 0123"),
        "{stderr}"
    );
    for part in parts {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    assert!(!stderr.contains(PASSWORD), "{stderr}");
}

fn node() -> Node {
    Node::new("/bin/echo")
}

#[test]
fn the_twin_that_is_not_refused() {
    let output = run(&node(), &SANDBOX);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("serial=imagepuller")
    );
    assert!(output.stderr.is_empty());
}

#[test]
fn annotations_off_the_allow_list() {
    let node = node();
    node.write("forbidden/secret.toml", node.document());
    std::os::unix::fs::symlink(
        node.path("forbidden/secret.toml"),
        node.path("allowed/link.toml"),
    )
    .unwrap();
    let forbidden = node.path("forbidden/secret.toml");
    let cases = [
        (
            forbidden.to_str().unwrap(),
            "is not below a directory of annotation-allow",
        ),
        (
            &format!(
                "{}/../forbidden/secret.toml",
                node.path("allowed").display()
            ),
            "\"..\" in it",
        ),
        (
            &format!("{}/link.toml", node.path("allowed").display()),
            "symbolic link",
        ),
        (
            &format!("{}/absent.toml", node.path("allowed").display()),
            "No such file",
        ),
        ("relative.toml", "not an absolute path"),
        (PASSWORD, "not an absolute path"),
    ];
    for (value, rule) in cases {
        node.annotate(value);
        assert_refused(&node, &SANDBOX, 65, &[ANNOTATION, rule]);
    }
    // A line break in a path must not forge a second line in Kata's log.
    node.write(
        "bundle/config.json",
        format!(r#"{{"annotations":{{"{ANNOTATION}":"/x\nlevel=info"}}}}"#),
    );
    assert_refused(&node, &SANDBOX, 65, &[ANNOTATION, "control characters"]);
}

#[test]
fn documents_that_are_not_valid() {
    let node = node();
    node.write(
        "document.toml",
        format!(
            "{}usrname = \"{PASSWORD}\"\nauth = \"{PASSWORD}!\"\n",
            node.document()
        ),
    );
    let path = node.path("document.toml");
    let path = path.to_str().unwrap();
    assert_refused(
        &node,
        &SANDBOX,
        65,
        &[
            path,
            "line 4",
            "line 5",
            "usrname",
            "auth",
            "kata-configdev check",
        ],
    );
    node.write(
        "document.toml",
        format!("password = {PASSWORD}\nnot toml\n"),
    );
    assert_refused(&node, &SANDBOX, 65, &[path, "not TOML"]);
    node.write("document.toml", "x = 1\n".repeat(2000));
    assert_refused(&node, &SANDBOX, 65, &[path]);
    node.write("document.toml", node.document());
    node.set_mode("document.toml", 0o622);
    assert_refused(&node, &SANDBOX, 65, &[path, "mode 0622"]);
    std::fs::remove_file(node.path("document.toml")).unwrap();
    assert_refused(&node, &SANDBOX, 65, &[path, "No such file"]);
}

#[test]
fn specs_that_are_none() {
    let node = node();
    node.write(
        "bundle/config.json",
        format!("{{\"annotations\": {PASSWORD}"),
    );
    assert_refused(&node, &SANDBOX, 65, &["config.json", "line 1"]);
}

#[test]
fn settings_that_are_missing_or_wrong() {
    let node = node();
    let settings = node.path("settings.toml");
    let settings = settings.to_str().unwrap();
    node.write("settings.toml", "qemu = \"/bin/echo\"\ndocment = \"/x\"\n");
    assert_refused(&node, &SANDBOX, 65, &[settings, ":2:", "docment"]);
    node.set_mode("settings.toml", 0o666);
    assert_refused(&node, &SANDBOX, 65, &[settings, "mode 0666"]);
    std::fs::remove_file(settings).unwrap();
    assert_refused(&node, &SANDBOX, 65, &[settings, "No such file"]);
    std::fs::create_dir(settings).unwrap();
    assert_refused(&node, &SANDBOX, 65, &[settings, "not a regular file"]);
}

#[test]
fn a_qemu_that_is_absent_or_the_wrapper_itself() {
    let absent = Node::new("/nonexistent/qemu");
    assert_refused(
        &absent,
        &SANDBOX,
        69,
        &["/nonexistent/qemu", "No such file", "set qemu"],
    );
    let itself = Node::new(env!("CARGO_BIN_EXE_kata-configdev-qemu"));
    assert_refused(&itself, &SANDBOX, 65, &["this wrapper itself"]);
}

#[test]
fn machines_without_a_known_disk() {
    let node = node();
    let other = ["-name", "sandbox-0123", "-machine", "isapc"];
    assert_refused(&node, &other, 65, &["\"isapc\""]);
    assert_refused(&node, &["-name", "sandbox-0123"], 65, &["no -machine"]);
}

/// What the tests above leave out of the causes that a wrapper can have.
#[test]
fn transports_ids_and_memory() {
    let cases = [
        (
            "transport = \"loop\"\n",
            "0123",
            65,
            "cannot use the transport \"loop\"",
        ),
        (
            "transport = \"file\"\nrun-root = \"/nonexistent\"\n",
            "0123",
            69,
            "/nonexistent",
        ),
        (
            "transport = \"file\"\n",
            "0123,,x",
            64,
            "use the sandbox's id",
        ),
    ];
    for (settings, id, code, part) in cases {
        let node = node();
        node.add_settings(settings);
        let name = format!("sandbox-{id}");
        assert_refused(&node, &["-name", &name, "-machine", "q35"], code, &[part]);
    }
    // No room for the image, and the wrapper lives to tell it.
    let node = node();
    let wrapper = node.wrapper();
    let mut command = Command::new("/bin/sh");
    node.place(&mut command);
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
    command.arg(wrapper.get_program()).args(SANDBOX);
    assert_refusal(&node, command, 70, &["into memory", "File too large"]);
}

/// Without an answer the Go runtime waits on: it holds the listener that its connection is in the
/// queue of.
#[test]
fn exit_leaves_the_go_runtime_waiting() {
    let node = node();
    node.add_settings("refuse = \"exit\"\n");
    node.write("document.toml", "x = 1\n");
    let mut shim = GoShim::start(&node, sandbox(&node));
    assert_eq!(shim.waits(Duration::from_secs(1)), Heard::Nothing);
    assert_eq!(shim.ends().1.status.code(), Some(65));
}

/// The second monitor has a path and is for people: nobody waits for an answer there.
#[test]
fn a_monitor_with_a_path_is_not_answered() {
    const EXTRA: [&str; 2] = [
        "-qmp",
        "unix:path=/nonexistent/extra.sock,server=on,wait=off",
    ];
    let node = Node::new("/nonexistent/qemu");
    let mut command = sandbox(&node);
    command.args(EXTRA);
    assert_refusal(&node, command, 69, &["set qemu"]);
    let output = run(&node, &[&SANDBOX[..], &EXTRA].concat());
    assert_eq!(output.status.code(), Some(69));
}

/// Whatever a client does, the wrapper ends with its exit code, and in seconds. A client that goes
/// leaves its place to the next one.
#[test]
fn clients_that_do_not_ask() {
    // QEMU cannot be executed: SIGPIPE has its default action again.
    let node = Node::new("/nonexistent/qemu");
    let endless = vec![b'{'; 100_000];
    let cases: [(&str, Option<&[u8]>, bool); 5] = [
        ("is silent", Some(b""), false),
        ("hangs up", None, true),
        ("does not end", Some(&endless), true),
        ("does not make sense", Some(b"{\"execute\":7}\r\n"), true),
        (
            "asks something else first",
            Some(b"{\"execute\":\"stop\"}"),
            false,
        ),
    ];
    for (name, says, is_next_answered) in cases {
        let mut shim = GoShim::start(&node, sandbox(&node));
        shim.says(says);
        shim.dials();
        // In the queue until the wrapper ends, and after that.
        let patience = if is_next_answered {
            PATIENCE
        } else {
            Duration::from_secs(1)
        };
        let heard = shim.waits(patience);
        assert_eq!(
            matches!(heard, Heard::Error(_)),
            is_next_answered,
            "{name}: {heard:?}"
        );
        let (after, output) = shim.ends();
        assert_eq!(output.status.code(), Some(69), "{name}");
        assert!(after < Duration::from_secs(10), "{name}: {after:?}");
    }
}

/// The Rust runtime asks on whatever it is answered, so that only a VM that starts helps it. By
/// itself it is not kept waiting for an answer.
#[test]
fn the_rust_runtime_takes_no_error_for_an_answer() {
    let node = Node::new("/nonexistent/qemu");
    for (refuse, answered) in [("auto", false), ("disk", false), ("monitor", true)] {
        let text =
            format!("qemu = \"/nonexistent/qemu\"\nrefuse = {refuse:?}\nguest-pull = true\n");
        node.write("settings.toml", text);
        let mut command = node.wrapper();
        command.args(RUST_SANDBOX);
        let ([first, last], child) = rust_shim(&node, command, Duration::from_secs(1));
        assert_eq!(
            matches!(first, Heard::Error(_)),
            answered,
            "{refuse}: {first:?}"
        );
        assert_eq!(last, Heard::Lost, "{refuse}");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(69), "{refuse}");
        assert_eq!(
            output.stderr.iter().filter(|byte| **byte == b'\n').count(),
            1
        );
    }
}

/// Every recorded command line is known as its runtime's, and its monitor is found.
#[test]
fn the_runtimes_are_told_apart() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../qemu-fixtures/arguments");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        if text.starts_with("-name\nsandbox-") {
            let arguments: Vec<OsString> = text.lines().map(OsString::from).collect();
            let invocation = Invocation::read(&arguments);
            assert_eq!(
                invocation.rust_runtime,
                name.starts_with("runtime-rs"),
                "{name}"
            );
            assert!(invocation.monitor.is_some(), "{name}");
            read += 1;
        }
    }
    assert!(read >= 9, "{read}");
}
