//! What Kata left of a sandbox that is gone.

use std::path::Path;
use std::process::Command;

use test_command::{skip, skipped_without_root};

use crate::doctor::node::{DROP_IN, Node, SETTINGS};
use crate::doctor::{doctor, matches, table};

/// On the node itself, because only there all processes are seen: of a sandbox that one of them
/// names, nothing is left over.
#[test]
fn privileged_what_kata_left_is_told_on_the_node_itself() {
    if skipped_without_root("another root") {
        return;
    }
    if std::fs::read_link("/proc/self/ns/pid").unwrap() != Path::new("pid:[4026531836]") {
        skip("not all processes of the machine are seen here");
        return;
    }
    let node = Node::new();
    // No process of another test names it.
    let id = format!("left-{}", std::process::id());
    let left = node.path(&format!("run/vc/sbs/{id}"));
    std::fs::create_dir_all(&left).unwrap();
    std::fs::create_dir(node.path("proc")).unwrap();
    node.put_program();
    let doctor = || {
        let script = "mount -t proc proc \"$1/proc\" && exec chroot \"$1\" /kata-configdev doctor";
        let run = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
            .arg(node.path(""))
            .output()
            .unwrap();
        String::from_utf8(run.stdout).unwrap()
    };
    let pattern = table()["leftover-of-kata"][0].replace("3f1c0d9a5b7e", &id);
    let is_told = |said: &str| said.lines().any(|line| matches(&pattern, line));
    // It may be one that starts.
    let young = doctor();
    assert!(young.contains(" faults, ") && !is_told(&young), "{young}");
    let touched = Command::new("touch").args(["-d", "1 hour ago"]).arg(&left).status().unwrap();
    assert!(touched.success());
    let old = doctor();
    assert!(is_told(&old), "{old}");
}

/// An installation below a prefix of its own uses it, though no handler that is seen names it.
#[test]
fn the_state_of_an_installation_is_no_leftover() {
    for (list, is_told) in [
        ("opt/kata-configdev/installed.json", false),
        ("opt/kata-configdev/team/installed.json", false),
        ("opt/elsewhere/installed.json", true),
    ] {
        let node = Node::new();
        node.remove(DROP_IN);
        node.remove(SETTINGS);
        node.put("run/kata-configdev/credential-providers/x", "");
        node.put(list, r#"{"format":2,"directories":[],"files":[]}"#);
        let said = doctor(&node, &["--json"]).stdout;
        assert_eq!(said.contains("leftover-state"), is_told, "{list}: {said}");
    }
}
