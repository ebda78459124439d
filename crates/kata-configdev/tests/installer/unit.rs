//! What `deploy/host` has for nodes without Kubernetes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kata_configdev::settings::RULES;
use node_installer::Options;

fn host_file(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("deploy/host").join(name)
}

#[test]
fn the_example_is_a_configuration() {
    let text = fs::read(host_file("agent.toml")).unwrap();
    let options = Options::parse(&text, RULES).unwrap();
    assert!(options.sandboxes && options.sets["default"].required);
    assert!(options.is_on_host_network(), "/readyz tells no reason");
}

/// systemd's own reader knows every line of the unit and finds nothing to complain of.
#[test]
fn the_unit_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let unit = fs::read_to_string(host_file("kata-configdev-agent.service")).unwrap();
    // The program must be there for systemd to be content.
    let program = env!("CARGO_BIN_EXE_kata-configdev");
    let unit = unit.replace("/usr/local/bin/kata-configdev", program);
    let path = directory.path().join("kata-configdev-agent.service");
    fs::write(&path, unit).unwrap();
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&path)
        .output();
    let Ok(output) = verified else {
        test_command::skip("systemd-analyze is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
