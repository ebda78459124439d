//! The off switch: `enabled = false`.

use std::process::Output;

use crate::wrapper::node::{Node, PASSWORD};

/// The arguments, each on a line; an empty one stays.
const ECHO: &str = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n";

const ARGUMENTS: [&str; 6] = ["-name", "sandbox-off", "-machine", "q35", "", "-S"];

fn node() -> Node {
    let node = Node::new("/nonexistent/qemu");
    node.program("qemu", "755", ECHO);
    node.set_qemu(node.path("qemu"));
    std::fs::create_dir(node.path("config.d")).unwrap();
    node
}

fn start(node: &Node) -> Output {
    node.wrapper().args(ARGUMENTS).output().unwrap()
}

fn assert_off(node: &Node, place: &str) {
    let output = start(node);
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stdout, ARGUMENTS.join("\n") + "\n");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let place = format!("turned off ({}: enabled = false)", node.path(place).display());
    assert!(
        stderr.contains("sandbox off: ")
            && stderr.contains(&place)
            && stderr.contains("; starting /"),
        "{stderr}"
    );
    assert!(!stderr.contains(PASSWORD), "{stderr}");
}

#[test]
fn the_wrapper_becomes_qemu_with_untouched_arguments() {
    let node = node();
    assert!(String::from_utf8_lossy(&start(&node).stdout).contains("-blockdev"));
    node.add_settings("enabled = false\n");
    assert_off(&node, "settings.toml:4");
    // QEMU asked about itself says nothing more.
    let asked = node.wrapper().arg("--version").output().unwrap();
    assert_eq!((&asked.stdout[..], &asked.stderr[..]), (&b"--version\n"[..], &b""[..]));
    // A later file turns it on again.
    node.write("config.d/50-on.toml", "enabled = true\n");
    assert!(String::from_utf8_lossy(&start(&node).stdout).contains("-blockdev"));
}

#[test]
fn nothing_else_that_is_broken_is_in_the_way() {
    for broken in [
        "documnet = 7\n",
        "transport = \"loop\"\n",
        "this is no TOML\n",
        "[qemu\n",
        "[credential-providers]\nsource = \"x\"\n",
    ] {
        let node = node();
        node.add_settings(&format!("enabled = false\n{broken}"));
        std::fs::remove_file(node.path("document.toml")).unwrap();
        node.annotate("/nowhere/allowed");
        assert_off(&node, "settings.toml:4");
        // In a drop-in, and beside another one that nobody can read.
        node.set_qemu(node.path("qemu"));
        node.add_settings(broken);
        assert!(!start(&node).status.success());
        node.write("config.d/50-broken.toml", broken);
        std::os::unix::fs::symlink("nowhere", node.path("config.d/60-link.toml")).unwrap();
        node.write("config.d/70-off.toml", format!("\nenabled = false\n{broken}"));
        assert_off(&node, "config.d/70-off.toml:2");
    }
}

/// Who can write the switch could also name another program as QEMU.
#[test]
fn what_others_can_write_turns_nothing_off() {
    let node = node();
    node.write("config.d/50-off.toml", "enabled = false\n");
    node.set_mode("config.d/50-off.toml", 0o666);
    let output = start(&node);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(65), "{stderr}");
    assert!(stderr.contains("mode 0666"), "{stderr}");
}

#[test]
fn it_does_not_call_itself_either() {
    let node = Node::new(env!("CARGO_BIN_EXE_kata-configdev-qemu"));
    node.add_settings("enabled = false\n");
    let output = start(&node);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(65), "{stderr}");
    assert!(stderr.contains("is this wrapper itself"), "{stderr}");
}
