//! Who is quoted in the log lines of Kata's runtimes.
//!
//! The texts are those of Kata 4.1.0 with containerd 1.7.24, both runtimes unmodified, as
//! docs/messages.md has them ("Kata"). An entry has the sandbox's id beside them.

use kata_configdev::doctor::sandbox::journal::entries;
use kata_configdev::doctor::sandbox::{GUEST, Joined};
use kata_configdev::sandbox_id::SandboxId;
use serde_json::json;

const ID: &str = "3f1c0d9a5b7e";

/// Whose line it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Wrapper,
    Shim,
    Guest,
    /// None: it is no error.
    No,
}
use Line::{Guest, No, Shim, Wrapper};

/// Priority, text, and whose line that is. ID stands for the sandbox's.
const SAID: &[(u8, &str, Line)] = &[
    // The wrapper refused: the Go runtime logs QEMU's standard error as an error, runtime-rs as a
    // notice, and containerd has what the Go runtime heard on the monitor.
    (
        3,
        "level=error msg=\"kata-configdev-qemu: sandbox ID: failed to use the annotation \
         io.katacontainers.config.runtime.imagepuller_config: /etc/x.toml is not below a directory \
         of annotation-allow: name a file\" name=containerd-shim-v2 sandbox=ID",
        Wrapper,
    ),
    (
        5,
        "qemu stderr: \"kata-configdev-qemu: sandbox ID: failed to read the node's document \
         /etc/kata-configdev/imagepuller.toml: No such file or directory: put it there\"",
        Wrapper,
    ),
    (
        6,
        "level=error msg=\"RunPodSandbox failed\" error=\"failed to create shim task: QMP command \
         failed: kata-configdev-qemu: sandbox ID: failed to use the sandbox's id: leave out \
         transport: unknown\"",
        Wrapper,
    ),
    (
        4,
        "level=warning msg=\"kata-configdev-qemu: warning: sandbox ID: credential providers: the \
         kubelet's configuration of them is not found\" sandbox=ID",
        Wrapper,
    ),
    // It refused by the disk: who says so is the guest, and the pod's event has its line.
    (
        3,
        "failed to pull registry.corp/app@sha256:00: the node has no configuration and nothing is \
         pulled without it; the node says: kata-configdev-qemu: sandbox ID: failed to read the \
         node's document: put it there sandbox=ID",
        Guest,
    ),
    // Without an answer on the monitor.
    (
        3,
        "start vm: timed out waiting for QMP ready: qmp.sock: Connection refused (os error 111) \
         sandbox ID",
        Shim,
    ),
    (
        6,
        "level=error msg=\"RunPodSandbox for ID failed\" error=\"rpc error: code = \
         DeadlineExceeded desc = context deadline exceeded\"",
        Shim,
    ),
    (4, "level=warning msg=\"QEMU exited with an error\" error=\"exit status 65\" sandbox=ID", No),
    (3, "annotation io.katacontainers.config.hypervisor.X is not enabled sandbox=ID", Shim),
    (
        3,
        "failed to launch qemu: fork/exec /usr/local/bin/kata-configdev-qemu: permission denied \
         sandbox=ID",
        Shim,
    ),
    // The guest died while it booted: nobody answers.
    (
        3,
        "Failed to Check if grpc server is working: rpc error: code = DeadlineExceeded desc = timed \
         out connecting to vsock 1024:1024 sandbox=ID",
        Shim,
    ),
    (3, "vsock: failed to connect: ENODEV sandbox=ID", Shim),
    (6, "level=info msg=\"Stop logging QEMU\" sandbox=ID", No),
    (3, "failed to create shim task: exiting QMP loop, command cancelled sandbox=ID", Shim),
    (3, "level=error msg=\"Dead agent\" sandbox=ID", Shim),
    // What an earlier start left in the network namespace.
    (3, "Failed to add qdisc for network index 3 : file exists sandbox=ID", Shim),
    (3, "unsupported link type: tuntap sandbox=ID", Shim),
    // The guest refused its initdata, of both runtimes.
    (
        3,
        "failed to create shim task: \"UpdateInterfaceRequest is blocked by policy: \
         /run/measured-cfg/policy.rego:93: failed to verify initdata: found no sign of SNP or \
         TDX\": unknown sandbox=ID",
        Guest,
    ),
    // The puller's own words.
    (
        3,
        "failed to create containerd task: failed to create shim task: failed to pull \
         registry.corp:5000/team/app@sha256:00: registry.corp:5000 refused the credentials of entry \
         \"registry.corp.\" (401 Unauthorized): check user name and password sandbox=ID",
        Guest,
    ),
    (
        3,
        "failed to pull docker.io/library/bb:1: the image reference has no digest sandbox=ID",
        Guest,
    ),
    // The agent answers without the puller's words, or not at all.
    (
        3,
        "the node has no configuration and nothing is pulled without it; the node says: the secret \
         is late sandbox=ID",
        Guest,
    ),
    (3, "rpc status: UNKNOWN: \"LocalClosed\" sandbox=ID", Guest),
    (3, "agent create container: ttrpc err: Receive packet timeout sandbox=ID", Guest),
    // Of another sandbox.
    (3, "ttrpc err: Receive packet timeout sandbox=0000", No),
];

/// The lines that were tried had been made up, and one that the guest repeats of the wrapper's was
/// told as the wrapper's.
#[test]
fn who_is_quoted_is_found_in_what_the_runtimes_say() {
    let id = SandboxId::parse(ID).unwrap();
    for (priority, text, expected) in SAID {
        let text = text.replace("ID", ID);
        let entry = json!({"MESSAGE": text, "PRIORITY": priority.to_string()}).to_string();
        let mut joined = Joined::default();
        joined.add_log(&entries(entry.as_bytes()), &id);
        let told = [(&joined.wrapper, Wrapper), (&joined.shim, Shim), (&joined.guest, Guest)];
        let told: Vec<Line> = told
            .into_iter()
            .filter(|(lines, _)| **lines == [text.clone()])
            .map(|(_, line)| line)
            .collect();
        let expected = match expected {
            No => vec![],
            line => vec![*line],
        };
        assert_eq!(told, expected, "{text}");
    }
    // Each mark of the guest's words decides a row by itself.
    for mark in GUEST {
        let marks = |text: &&str| GUEST.iter().filter(|mark| text.contains(*mark)).count();
        let mut texts = SAID.iter().map(|(_, text, _)| text);
        assert!(texts.any(|text| text.contains(mark) && marks(text) == 1), "{mark}");
    }
}
