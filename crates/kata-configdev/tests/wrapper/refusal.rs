//! Sandboxes that must not start: one line says why, and QEMU is never reached.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use kata_configdev::refusal::last;
use kata_configdev::sandbox_id::SandboxId;
use kata_configdev::sweep::{DEFAULT_MIN_AGE, sweep};

use crate::wrapper::node::{ANNOTATION, Node, PASSWORD};
use crate::wrapper::shims::{GoShim, Heard, PATIENCE};

pub const SANDBOX: [&str; 4] = ["-name", "sandbox-0123", "-machine", "q35,accel=tcg"];

/// Runs the wrapper, whose QEMU would leave a trace on standard output.
pub fn run(node: &Node, arguments: &[&str]) -> Output {
    node.wrapper().args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// The wrapper, started for a sandbox with the usual arguments.
pub fn sandbox(node: &Node) -> Command {
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
pub fn assert_refusal(node: &Node, command: Command, code: i32, parts: &[&str]) {
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
    assert!(stderr.starts_with("kata-configdev-qemu: sandbox 0123"), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    assert!(!stderr.contains(PASSWORD), "{stderr}");
}

/// Why a sandbox was refused stood in the journal only, among everything else and in the words of
/// whoever logged it.
#[test]
fn a_refusal_is_kept_for_doctor() {
    let node = node();
    std::fs::create_dir(node.path("run")).unwrap();
    node.add_settings(&format!("run-root = {:?}\n", node.path("run")));
    node.write("document.toml", format!("password = {PASSWORD}\nnot toml\n"));
    assert_refused(&node, &SANDBOX, 65, &["not TOML"]);
    let kept = node.path("run/kata-configdev/refusals/0123");
    let text = std::fs::read_to_string(&kept).unwrap();
    let (cause, line) = text.split_once('\n').unwrap();
    assert_eq!(cause, "document");
    assert!(line.starts_with("kata-configdev-qemu: sandbox 0123: failed to accept"), "{line}");
    assert!(!text.contains(PASSWORD), "{text}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&kept), mode(kept.parent().unwrap())), (0o600, 0o700));
    // The last one counts, and a sandbox by another name has its own.
    node.write("document.toml", "x = 1\n");
    assert_refused(&node, &SANDBOX, 65, &["x"]);
    node.write("document.toml", "");
    let others = ["-name", "sandbox-4567", "-machine", "isapc"];
    let output = node.wrapper().args(others).output().unwrap();
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    let read = |id: &str| {
        let id = SandboxId::parse(id).unwrap();
        last::line(&node.path("run"), &id).unwrap()
    };
    assert!(read("0123").contains("document.toml") && !read("0123").contains("not TOML"));
    assert!(read("4567").contains("isapc"));
    let recent = last::recent(&node.path("run"));
    assert_eq!((recent["document"], recent["machine"], recent["node"]), (1, 1, 0));
}

/// A node that refuses without end keeps the newest, and what is a day old goes.
#[test]
fn refusals_are_few_and_young() {
    let node = node();
    std::fs::create_dir(node.path("run")).unwrap();
    node.add_settings(&format!("run-root = {:?}\n", node.path("run")));
    let directory = node.path("run/kata-configdev/refusals");
    std::fs::create_dir_all(&directory).unwrap();
    node.set_mode("run/kata-configdev", 0o755);
    node.set_mode("run/kata-configdev/refusals", 0o700);
    let age = |name: &str, hours: u64| {
        let file = std::fs::File::create(directory.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
    };
    for number in 0..256 {
        age(&format!("old-{number}"), 1);
    }
    age("old-7", 23);
    age("old-8", 25);
    let files = || std::fs::read_dir(&directory).unwrap().count();
    assert_refused(&node, &["-name", "sandbox-0123", "-machine", "isapc"], 65, &["isapc"]);
    assert_eq!(files(), 256);
    assert!(!directory.join("old-8").exists() && directory.join("old-7").exists());
    age("old-7", 24);
    sweep(&node.path("run"), DEFAULT_MIN_AGE).unwrap();
    assert_eq!(files(), 255);
    assert!(directory.join("0123").exists() && !directory.join("old-7").exists());
}

/// Others than root may not write below `/run`, but what they could leave there is not followed.
#[test]
fn a_refusal_follows_no_link() {
    let node = node();
    let directory = node.path("run/kata-configdev/refusals");
    std::fs::create_dir_all(&directory).unwrap();
    node.set_mode("run/kata-configdev", 0o755);
    node.set_mode("run/kata-configdev/refusals", 0o700);
    node.add_settings(&format!("run-root = {:?}\n", node.path("run")));
    node.write("other", "other");
    let other = node.path("other");
    std::os::unix::fs::symlink(&other, directory.join("0123")).unwrap();
    let machine = ["-name", "sandbox-0123", "-machine", "isapc"];
    assert_refused(&node, &machine, 65, &["isapc"]);
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "other");
    assert!(!directory.join("0123").is_symlink());
    std::fs::rename(&directory, node.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(node.path("elsewhere"), &directory).unwrap();
    assert_refused(&node, &machine, 65, &["isapc"]);
    assert_eq!(std::fs::read_dir(node.path("elsewhere")).unwrap().count(), 0);
}

fn node() -> Node {
    Node::new("/bin/echo")
}

#[test]
fn the_twin_that_is_not_refused() {
    let output = run(&node(), &SANDBOX);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("serial=imagepuller"));
    assert!(output.stderr.is_empty());
}

#[test]
fn annotations_off_the_allow_list() {
    let node = node();
    node.write("forbidden/secret.toml", node.document());
    std::os::unix::fs::symlink(node.path("forbidden/secret.toml"), node.path("allowed/link.toml"))
        .unwrap();
    let forbidden = node.path("forbidden/secret.toml");
    let cases = [
        (forbidden.to_str().unwrap(), "is not below a directory of annotation-allow"),
        (&format!("{}/../forbidden/secret.toml", node.path("allowed").display()), "\"..\" in it"),
        (&format!("{}/link.toml", node.path("allowed").display()), "symbolic link"),
        (&format!("{}/absent.toml", node.path("allowed").display()), "No such file"),
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

/// A typo once meant the node's document in the place of the pod's own.
#[test]
fn an_annotation_of_ours_that_does_not_exist() {
    let node = node();
    let other = "io.katacontainers.config.runtime.image_pull";
    let spec = |key: &str| serde_json::json!({"annotations": {key: PASSWORD}}).to_string();
    node.write("bundle/config.json", spec(other));
    assert_eq!(run(&node, &SANDBOX).status.code(), Some(0));
    for (key, shown) in [
        ("io.katacontainers.config.runtime.imagepuller_confg", "imagepuller_confg\""),
        ("io.katacontainers.config.runtime.imagepuller_registries", "imagepuller_registries\""),
        ("io.katacontainers.config.runtime.imagepuller_config2", "imagepuller_config2\""),
        ("io.katacontainers.config.runtime.imagepuller_\nx", "imagepuller_\\nx\""),
    ] {
        node.write("bundle/config.json", spec(key));
        assert_refused(&node, &SANDBOX, 65, &["failed to use the annotation", shown]);
    }
}

#[test]
fn documents_that_are_not_valid() {
    let node = node();
    node.write(
        "document.toml",
        format!("{}usrname = \"{PASSWORD}\"\nauth = \"{PASSWORD}!\"\n", node.document()),
    );
    let path = node.path("document.toml");
    let path = path.to_str().unwrap();
    assert_refused(
        &node,
        &SANDBOX,
        65,
        &[path, "line 4", "line 5", "usrname", "auth", "kata-configdev check"],
    );
    node.write("document.toml", format!("password = {PASSWORD}\nnot toml\n"));
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
    node.write("bundle/config.json", format!("{{\"annotations\": {PASSWORD}"));
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
    assert_refused(&absent, &SANDBOX, 69, &["/nonexistent/qemu", "No such file", "set qemu"]);
    absent.add_settings("refuse = \"disk\"\n");
    assert_refused(&absent, &SANDBOX, 69, &["set qemu"]);
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
fn transports_ids_copies_and_memory() {
    let cases = [
        ("transport = \"loop\"\n", "0123", 65, "cannot use the transport \"loop\""),
        ("transport = \"file\"\nrun-root = \"/nonexistent\"\n", "0123", 69, "/nonexistent"),
        ("transport = \"file\"\n", "0123,,x", 64, "use the sandbox's id"),
    ];
    for (settings, id, code, part) in cases {
        let node = node();
        node.add_settings(settings);
        let name = format!("sandbox-{id}");
        assert_refused(&node, &["-name", &name, "-machine", "q35"], code, &[part]);
    }
    let node = node();
    let incoming = [&SANDBOX[..], &["-incoming", "defer"]].concat();
    assert_refused(&node, &incoming, 65, &["the VM is a copy"]);
    std::fs::remove_file(node.path("bundle/config.json")).unwrap();
    assert_refused(&node, &incoming, 65, &["before its pod is known"]);
    assert_refused(&node, &SANDBOX, 65, &["has no config.json"]);
    // No room for the image, and the wrapper lives to tell it.
    node.write("bundle/config.json", "{}");
    let wrapper = node.wrapper();
    let mut command = Command::new("/bin/sh");
    node.place(&mut command);
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
    command.arg(wrapper.get_program()).args(SANDBOX);
    assert_refusal(&node, command, 70, &["into memory", "File too large"]);
}
