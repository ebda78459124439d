//! What QEMU gets from the wrapper: all that the wrapper got, and one disk more.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use command_fds::{CommandFdExt, FdMapping};
use config_image::Magic;
use rustix::fs::{SealFlags, fcntl_get_seals};
use rustix::process::{Pid, Signal, kill_process};

use crate::wrapper::node::Node;
use crate::wrapper::process::{WAITING_PROGRAM, Waiting};

const O_ACCMODE: u32 = 0o3;
const O_CLOEXEC: u32 = 0o2_000_000;

fn node() -> Node {
    let node = Node::new("/bin/true");
    node.program("qemu", "700", WAITING_PROGRAM);
    node.set_qemu(node.path("qemu"));
    node
}

/// Kata's arguments in short, with an odd one: bytes that are not text.
fn sandbox_arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "-name",
        "sandbox-0123,debug-threads=on",
        "-machine",
        "q35,accel=kvm",
        "-qmp",
        "unix:fd=3,server=on,wait=off",
        "-nodefaults",
        "-append",
        "a \"quoted\" $word",
        "",
    ]
    .map(OsString::from)
    .into();
    arguments.push(OsString::from_vec(b"/path/\xff\xfe".to_vec()));
    arguments
}

/// Files that the caller hands down under the numbers 3, 4 and 250, the first one read to its
/// middle.
fn hand_down(command: &mut Command, file: &File) {
    let mappings = [3, 4, 250].map(|child_fd| FdMapping {
        parent_fd: OwnedFd::from(file.try_clone().unwrap()),
        child_fd,
    });
    command.fd_mappings(mappings.into()).unwrap();
}

#[test]
fn qemu_gets_everything_the_wrapper_got_and_the_disk_last() {
    let node = node();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"content of descriptor three").unwrap();
    file.seek(SeekFrom::Start(11)).unwrap();

    let [direct, wrapped] = [node.path("qemu"), env!("CARGO_BIN_EXE_kata-configdev-qemu").into()]
        .map(|program| {
            // A caller that blocks one signal and ignores another; env becomes the program.
            let mut command = Command::new("env");
            node.place(&mut command);
            command
                .args(["--block-signal=USR1", "--ignore-signal=USR2"])
                .arg(program)
                .args(sandbox_arguments());
            hand_down(&mut command, &file);
            Waiting::start(command)
        });

    // The process that was started is the one that runs QEMU now, in the same state as without the
    // wrapper.
    assert_eq!(wrapped.environment(), direct.environment());
    assert_eq!(wrapped.directory(), direct.directory());
    assert_eq!(wrapped.signals(), direct.signals());
    assert!(wrapped.has_signal("SigBlk", Signal::USR1));
    assert!(wrapped.has_signal("SigIgn", Signal::USR2));

    let arguments = wrapped.arguments();
    let (theirs, ours) = arguments.split_at(sandbox_arguments().len());
    assert_eq!(theirs, direct.arguments());
    assert_eq!(theirs, sandbox_arguments());
    let ours: Vec<&str> = ours.iter().map(|argument| argument.to_str().unwrap()).collect();
    let descriptor: u32 = ours[1]
        .strip_prefix("fd=")
        .and_then(|rest| rest.strip_suffix(",set=1000000,opaque=imagepuller"))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        [ours[0], ours[2], ours[3], ours[4], ours[5]],
        [
            "-add-fd",
            "-blockdev",
            "driver=raw,node-name=imagepuller,read-only=on,\
             file.driver=file,file.filename=/dev/fdset/1000000,file.read-only=on",
            "-device",
            "virtio-blk-pci,id=imagepuller,drive=imagepuller,serial=imagepuller,\
                 config-wce=off,num-queues=1,bus=pcie.0",
        ]
    );

    // Exactly one descriptor more than without the wrapper; all others lead to the same place, with
    // the same position and flags.
    let mut descriptors = wrapped.descriptors();
    let image = descriptors.remove(&descriptor).unwrap();
    assert_eq!(descriptors, direct.descriptors());
    for number in [3, 4, 250] {
        assert_eq!(descriptors[&number].flags() & O_CLOEXEC, 0, "{number}");
        assert!(descriptors[&number].notes.contains("pos:\t11\n"), "{number}");
    }
    let mut content = String::new();
    File::open(wrapped.entry("fd/3")).unwrap().read_to_string(&mut content).unwrap();
    assert_eq!(content, "content of descriptor three");

    // The image: anonymous memory, read-only, sealed, byte for byte what the encoder makes of the
    // document.
    assert!(image.target.starts_with("/memfd:imagepuller (deleted)"), "{image:?}");
    assert_eq!(image.flags() & (O_ACCMODE | O_CLOEXEC), 0, "{image:?}");
    let mut memory = File::open(wrapped.entry(&format!("fd/{descriptor}"))).unwrap();
    assert_eq!(
        fcntl_get_seals(&memory).unwrap(),
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL
    );
    let mut bytes = Vec::new();
    memory.read_to_end(&mut bytes).unwrap();
    let expected = config_image::encode(Magic::IMAGEPULLER, node.document().as_bytes()).unwrap();
    assert_eq!(bytes, *expected);

    let (status, stderr) = wrapped.finish();
    assert_eq!(status.code(), Some(7), "QEMU's exit code is the wrapper's");
    assert_eq!(stderr, "");
    direct.finish();
}

#[test]
fn signals_reach_qemu() {
    let node = node();
    let mut command = node.wrapper();
    command.args(sandbox_arguments());
    let waiting = Waiting::start(command);
    let pid = Pid::from_child(&waiting.child);
    kill_process(pid, Signal::TERM).unwrap();
    let (status, stderr) = waiting.finish();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(stderr, "");
}

/// The Rust runtime does this before `main`; without it the image could become QEMU's standard
/// input.
#[test]
fn closed_standard_descriptors_lead_to_dev_null() {
    let node = node();
    let text = "#!/bin/sh\nreadlink /proc/$$/fd/0 /proc/$$/fd/2\necho \"$@\"\n";
    node.program("qemu", "700", text);
    let wrapper = node.wrapper();
    let mut shell = Command::new("/bin/sh");
    node.place(&mut shell);
    let output = shell
        .args(["-c", "exec \"$0\" \"$@\" <&- 2>&-"])
        .arg(wrapper.get_program())
        .args(["-name", "sandbox-0123", "-machine", "q35"])
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.starts_with("/dev/null\n/dev/null\n-name "), "{stdout}");
    let descriptor = stdout.split_once("fd=").unwrap().1.split_once(',').unwrap().0;
    assert!(descriptor.parse::<u32>().unwrap() > 2, "{stdout}");
}

/// Starts the wrapper and returns what it added to `arguments`.
fn added(node: &Node, arguments: &[OsString]) -> Vec<OsString> {
    let mut command = node.wrapper();
    command.args(arguments);
    let waiting = Waiting::start(command);
    let found = waiting.arguments();
    let memory = |descriptor: &crate::wrapper::process::Descriptor| {
        descriptor.target.starts_with("/memfd:imagepuller (deleted)")
    };
    assert_eq!(
        waiting.descriptors().values().filter(|descriptor| memory(descriptor)).count(),
        (found.len() - arguments.len()) / 6,
        "a descriptor exactly where there are arguments for it"
    );
    let (status, stderr) = waiting.finish();
    assert_eq!((status.code(), stderr.as_str()), (Some(7), ""));
    assert_eq!(&found[..arguments.len()], arguments);
    found[arguments.len()..].to_vec()
}

#[test]
fn calls_that_get_no_disk_pass_untouched() {
    let node = node();
    let sandbox = sandbox_arguments();
    assert_eq!(added(&node, &sandbox).len(), 6, "the twin with a disk");

    let no_sandbox: Vec<OsString> =
        ["-name", "other", "-machine", "q35"].map(OsString::from).into();
    assert!(added(&node, &no_sandbox).is_empty());
    let unknown_option: Vec<OsString> = vec!["-device".into(), "help".into()];
    assert!(added(&node, &unknown_option).is_empty());

    node.annotate("");
    assert!(added(&node, &sandbox).is_empty(), "an empty annotation asks for no disk");
}

#[test]
fn the_pod_chooses_among_what_the_node_allows() {
    let node = node();
    node.write("allowed/pod.toml", "[registries.\"pod.corp.\"]\nregistrytoken = \"pod-token\"\n");
    node.annotate(node.path("allowed/pod.toml"));
    let mut command = node.wrapper();
    command.args(sandbox_arguments());
    let waiting = Waiting::start(command);
    let image = waiting
        .descriptors()
        .into_iter()
        .find(|(_, descriptor)| descriptor.target.starts_with("/memfd:imagepuller (deleted)"))
        .unwrap();
    let file = File::open(waiting.entry(&format!("fd/{}", image.0))).unwrap();
    let decoded = config_image::decode(&file, Magic::IMAGEPULLER).unwrap();
    assert_eq!(*decoded.document, std::fs::read(node.path("allowed/pod.toml")).unwrap());
    waiting.finish();
}
