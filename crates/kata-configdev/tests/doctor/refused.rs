//! What the wrapper refuses is a fault to doctor.

use std::process::Command;

use test_command::skipped_without_root;

use crate::doctor::breaks;
use crate::doctor::doctor;
use crate::doctor::node::{DROP_IN, Node, SETTINGS};

/// What the command `config` refuses and doctor holds for a warning: it fails no sandbox, or only
/// those whose pods want it.
const NO_FAULTS: [&str; 2] =
    ["failed to read the kubelet's credential providers: ", "open the allowed directory "];

/// Doctor said "0 faults" where the wrapper refused every sandbox. The command `config` runs on the
/// node itself, and looks at it as the wrapper does.
#[test]
fn privileged_what_config_refuses_is_a_fault() {
    if skipped_without_root("another root") {
        return;
    }
    let mut refused = 0;
    for (id, break_it) in breaks::all() {
        let node = Node::new();
        break_it(&node);
        if [SETTINGS, DROP_IN].iter().all(|file| !node.path(file).exists()) {
            // Nothing starts a wrapper there, which would miss its settings.
            continue;
        }
        node.put_program();
        let config = Command::new("chroot")
            .arg(node.path(""))
            .args(["/kata-configdev", "config"])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .output()
            .unwrap();
        assert!(config.status.code().is_some_and(|code| code < 100), "{config:?}");
        let said = String::from_utf8_lossy(&config.stderr);
        if config.status.success() || NO_FAULTS.iter().any(|words| said.contains(words)) {
            continue;
        }
        refused += 1;
        let run = doctor(&node, &[]);
        assert_eq!(run.code, 65, "{id}: {said}\n{}", run.stdout);
    }
    assert!(refused >= 19, "only {refused}");
}
