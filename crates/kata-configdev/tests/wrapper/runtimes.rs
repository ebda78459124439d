//! What Kata's runtimes hear of a sandbox that is refused, whatever they do.

use std::ffi::OsString;
use std::fs::File;
use std::time::{Duration, Instant};

use config_image::{Magic, ReadAt};
use kata_configdev::invocation::Invocation;
use kata_configdev::refusal::last;
use registry_config::Document;
use test_command::LIMIT;

use crate::wrapper::node::Node;
use crate::wrapper::qemu::{QEMU, installed};
use crate::wrapper::refusal::{SANDBOX, assert_refusal, run, sandbox};
use crate::wrapper::shims::{GoShim, Heard, PATIENCE, rust_shim};
use crate::wrapper::vectors::{CHANGED, vector};

/// What tells the Rust runtime's command lines from all others.
const RUST_SANDBOX: [&str; 4] =
    ["-name", "sandbox-0123", "-machine", "q35,accel=tcg,memory-backend=entire-guest-memory"];

/// Without an answer the Go runtime waits on: it holds the listener that its connection is in the
/// queue of.
#[test]
fn exit_leaves_the_go_runtime_waiting() {
    let node = Node::new("/bin/echo");
    node.add_settings("refuse = \"exit\"\n");
    node.write("document.toml", "x = 1\n");
    let mut shim = GoShim::start(&node, sandbox(&node));
    assert_eq!(shim.waits(Duration::from_secs(1)), Heard::Nothing);
    assert_eq!(shim.ends().1.status.code(), Some(65));
}

/// The second monitor has a path and is for people: nobody waits for an answer there.
#[test]
fn a_monitor_with_a_path_is_not_answered() {
    const EXTRA: [&str; 2] = ["-qmp", "unix:path=/nonexistent/extra.sock,server=on,wait=off"];
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
    let both = b"{\"execute\":\"stop\"}\r\n{\"execute\":\"qmp_capabilities\"}\r\n";
    let cases: [(&str, Option<&[u8]>, bool); 6] = [
        ("is silent", Some(b""), false),
        ("hangs up", None, true),
        ("does not end", Some(&endless), true),
        ("does not make sense", Some(b"{\"execute\":7}\r\n"), true),
        ("asks something else first", Some(b"{\"execute\":\"stop\"}"), false),
        ("asks both at once", Some(both), false),
    ];
    for (name, says, is_next_answered) in cases {
        let mut shim = GoShim::start(&node, sandbox(&node));
        shim.says(says);
        shim.dials();
        // In the queue until the wrapper ends, and after that.
        let patience = if is_next_answered { PATIENCE } else { Duration::from_secs(1) };
        let heard = shim.waits(patience);
        assert_eq!(matches!(heard, Heard::Error(_)), is_next_answered, "{name}: {heard:?}");
        let (after, output) = shim.ends();
        assert_eq!(output.status.code(), Some(69), "{name}");
        assert!(after < LIMIT, "{name}: {after:?}");
    }
}

/// Nobody reads standard error any more, and SIGPIPE has its default action.
#[test]
fn without_a_log_the_go_runtime_hears_the_reason() {
    let node = Node::new("/nonexistent/qemu");
    let (reader, log) = std::io::pipe().unwrap();
    drop(reader);
    let mut shim = GoShim::start_with_log(&node, sandbox(&node), log.into());
    assert!(matches!(shim.waits(PATIENCE), Heard::Error(_)));
    assert_eq!(shim.ends().1.status.code(), Some(69));
}

/// The Rust runtime gets a VM that starts, with the line on its disk. Without somebody in the guest
/// who reads it, or without a place for the disk, the wrapper ends.
#[test]
fn the_rust_runtime_gets_the_reason_on_a_disk() {
    if !installed() {
        return;
    }
    let node = Node::new(QEMU);
    let settings = std::fs::read_to_string(node.path("settings.toml")).unwrap();
    node.annotate("/nowhere");
    let cases = [
        ("guest-pull = true\n", "q35", "-S", true),
        ("refuse = \"disk\"\n", "q35", "-S", true),
        ("guest-pull = false\n", "q35", "-S", false),
        ("guest-pull = true\n", "isapc", "-S", false),
        ("guest-pull = true\n", "q35", "-incoming", false),
    ];
    for (added, machine, option, starts) in cases {
        node.write("settings.toml", format!("{settings}{added}"));
        let machine = format!("{machine},accel=tcg,memory-backend=entire-guest-memory");
        let memory = "memory-backend-ram,id=entire-guest-memory,size=64M";
        let mut command = node.wrapper();
        command.args(["-name", "sandbox-0123", "-machine", &machine, "-m", "64M"]);
        command.args(["-object", memory, "-nodefaults", "-nographic", option]);
        command.args((option == "-incoming").then_some("defer"));
        let ([_, heard], mut child) = rust_shim(&node, command, Duration::from_secs(2));
        let read = (heard == Heard::Ready).then(|| node_error(&disk(child.id())));
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(line.lines().count(), 1, "{line}");
        if starts {
            assert_eq!(read.as_deref(), Some(line.trim_end()), "{added}");
        } else {
            assert_eq!((heard, output.status.code()), (Heard::Lost, Some(65)), "{line}");
        }
    }
}

/// The disk in memory of a process.
fn disk(pid: u32) -> File {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut paths = descriptors.map(|entry| entry.unwrap().path());
    let image = paths.find(|path| {
        let target = std::fs::read_link(path).unwrap();
        target.starts_with("/memfd:imagepuller (deleted)")
    });
    File::open(image.expect("a disk in memory")).unwrap()
}

/// What a disk says in the place of a document.
fn node_error(image: &(impl ReadAt + ?Sized)) -> String {
    let decoded = config_image::decode(image, Magic::IMAGEPULLER).unwrap();
    let read = Document::parse(&decoded.document).unwrap();
    read.document.node_error.expect("a node-error").to_string()
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
        assert_eq!(matches!(first, Heard::Error(_)), answered, "{refuse}: {first:?}");
        assert_eq!(last, Heard::Lost, "{refuse}");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(69), "{refuse}");
        assert_eq!(output.stderr.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}

/// In QEMU's place: hands on what is on the disk that came last.
const READS_DISK: &str = "#!/bin/sh\nfor argument; do\ncase $argument in\nfd=*,set=*) \
    disk=${argument#fd=} ;;\nesac\ndone\nexec cat /proc/$$/fd/${disk%%,*}\n";

/// How the runtime with this recorded command line gets to know the reason, and the reason.
fn refused(node: &Node, name: &str, patience: Duration) -> (&'static str, String) {
    let mut command = node.wrapper();
    command.args(vector(name));
    let started = Instant::now();
    let (heard, output) = match name.starts_with("runtime-rs") {
        true => {
            let ([heard, _], child) = rust_shim(node, command, Duration::ZERO);
            (heard, child.wait_with_output().unwrap())
        }
        false => {
            let mut shim = GoShim::start(node, command);
            (shim.waits(patience), shim.ends().1)
        }
    };
    assert!(started.elapsed() < LIMIT, "{name}: {:?}", started.elapsed());
    let line = String::from_utf8(output.stderr).unwrap();
    let line = line.strip_suffix('\n').expect("a line").to_owned();
    assert!(!line.contains('\n'), "{name}: {line}");
    let how = match (heard, output.status.code()) {
        (Heard::Error(text), Some(65)) => {
            assert_eq!(text, line, "{name}");
            "monitor"
        }
        (Heard::Nothing | Heard::Lost, Some(65)) => "nothing",
        (Heard::Nothing | Heard::Lost, Some(0)) => {
            assert_eq!(node_error(&output.stdout[..]), line, "{name}");
            "disk"
        }
        other => panic!("{name}: {other:?}: {line}"),
    };
    (how, line)
}

/// What can still be read of faulty settings, line by line, says how they are refused.
#[test]
fn settings_that_are_no_toml_are_refused_as_they_say() {
    let node = Node::new("/bin/true");
    node.program("qemu", "700", READS_DISK);
    let run = node.path("run");
    std::fs::create_dir(&run).unwrap();
    let first = format!("qemu = {:?}\nrun-root = {run:?}\n", node.path("qemu"));
    let [go, rust] = CHANGED;
    let mut count = 0;
    for fault in ["this is no TOML\n", "document = \"/x\n", "documnet = \"/x\"\n"] {
        for (lines, by_go, by_rust) in [
            ("guest-pull = true\n", "monitor", "disk"),
            ("refuse = \"disk\"\n", "disk", "disk"),
            ("refuse = \"monitor\"\nguest-pull = true\n", "monitor", "monitor"),
            ("refuse = \"exit\"\nguest-pull = true\n", "nothing", "nothing"),
            // Not said, or not so.
            ("", "monitor", "nothing"),
            ("guest-pull = \"true\"\nrefuse = \"disc\"\n", "monitor", "nothing"),
            ("[other]\nguest-pull = true\n", "monitor", "nothing"),
        ] {
            node.write("settings.toml", format!("{first}{fault}{lines}"));
            for (name, by) in [(go, by_go), (rust, by_rust)] {
                let patience = match by {
                    "monitor" => PATIENCE,
                    _ => Duration::from_millis(200),
                };
                let (how, line) = refused(&node, name, patience);
                assert_eq!(how, by, "{name}: {fault}{lines}");
                assert!(line.contains("settings.toml:3: "), "{line}");
                count += 1;
            }
        }
    }
    assert!(count > 0 && last::recent(&run)["settings"] == 2);
}

/// The very program that reads them is not started again.
#[test]
fn faulty_settings_that_name_the_wrapper_as_qemu_are_refused() {
    let node = Node::new(env!("CARGO_BIN_EXE_kata-configdev-qemu"));
    node.add_settings("guest-pull = true\nthis is no TOML\n");
    let (how, line) = refused(&node, CHANGED[1], PATIENCE);
    assert_eq!(how, "nothing", "{line}");
    assert!(line.contains("settings.toml:5: "), "{line}");
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
            assert_eq!(invocation.rust_runtime, name.starts_with("runtime-rs"), "{name}");
            assert!(invocation.monitor.is_some(), "{name}");
            read += 1;
        }
    }
    assert_eq!(read, 30);
}
