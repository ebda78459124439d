//! The unit of `deploy/host`, with all its restrictions, on a node with systemd and Kata.

use std::fs;

use anyhow::Result;
use end_to_end::assert_tells;
use vm_harness::{Program, Scenario};

use crate::systemd::facts;
use crate::systemd::overlay::{Overlay, UNITS, workspace};

const UNIT: &str = "kata-configdev-agent.service";

/// The handler that the shipped `agent.toml` names, and its registry config.
const HANDLER: &str = "opt/kata/share/defaults/kata-containers/runtimes/qemu-snp";
const REGISTRY_CONFIG: &str = "[registries.\"registry.corp\"]\nusername = \"puller\"\n\
                               password = \"p\"\n";

/// A node without journald: the log is a file.
const LOG: &str = "[Service]\nStandardOutput=append:/run/agent.log\n";

/// The second start has the restriction under which there is no `openat2`.
const NODE: &str = r#"
. /job/mark
agent=kata-configdev-agent.service
readyz() { wget -S -O /dev/null http://127.0.0.1:8087/readyz 2>&1 | sed -n 's,^ *HTTP/1.1 ,,p'; }
# ends UNTIL: the condition holds, or never will.
ends() { tries=0; until eval "$1" || [ $tries -ge 600 ]; do tries=$((tries + 1)); usleep 100000; done; }
log() { while read -r line; do mark "$1" "$line"; done </run/agent.log; }

ends '[ "$(readyz)" = "200 OK" ]'
mark readyz "$(readyz)"
while read -r line; do mark drop-in "$line"; done <"/HANDLER/config.d/zz-kata-configdev.toml"
pid=$(systemctl show --value -p MainPID $agent)
sed -n '/^CapBnd\|^NoNewPrivs\|^Seccomp:/s/:[[:space:]]*/=/p' "/proc/$pid/status" | while read -r fact; do mark agent "$fact"; done
log log

mkdir -p /run/systemd/system/$agent.d
printf '[Service]\nRestrictSUIDSGID=yes\n' >/run/systemd/system/$agent.d/99-test.conf
systemctl daemon-reload
: >/run/agent.log
systemctl restart $agent
ends 'grep -q "on the node" /run/agent.log'
log filtered
mark done
poweroff -f
"#;

#[test]
fn the_shipped_unit_keeps_a_node_right() -> Result<()> {
    let host = |name: &str| fs::read(workspace().join("deploy/host").join(name));
    let mut overlay = Overlay::new();
    overlay.file(&format!("{UNITS}/{UNIT}"), 0o644, &host(UNIT)?)?;
    overlay.drop_in(UNIT, LOG)?;
    overlay.file("etc/kata-configdev/agent.toml", 0o644, &host("agent.toml")?)?;
    let secret = "etc/kata-configdev/secret/imagepuller.toml";
    overlay.file(secret, 0o600, REGISTRY_CONFIG.as_bytes())?;
    for program in [Program::KataConfigdev, Program::KataConfigdevQemu] {
        let path = format!("usr/local/bin/{}", program.name());
        overlay.file(&path, 0o755, &fs::read(program.path()?)?)?;
    }
    let main = format!("{HANDLER}/configuration-qemu-snp.toml");
    overlay.file(&main, 0o644, b"[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu\"\n")?;
    overlay.file("opt/kata/bin/qemu", 0o755, b"#!/bin/sh\n")?;

    let target = format!(
        "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n\
         Wants={UNIT} observer.service\n"
    );
    let path = format!("{UNITS}/kata-containers.target");
    overlay.file(&path, 0o644, target.as_bytes())?;
    let observer = "[Service]\nExecStart=\nExecStart=/bin/sh /job/node\n";
    overlay.drop_in("observer.service", observer)?;
    let node = NODE.replace("HANDLER", HANDLER);
    overlay.file("job/node", 0o644, node.as_bytes())?;

    let report = overlay.boot(Scenario::bare(""))?;
    assert_eq!(report.value("readyz"), Some("200 OK"), "{}", report.console);
    let wrapper = "path = \"/opt/kata-configdev/default/bin/kata-configdev-qemu\"";
    assert!(report.values("drop-in").any(|line| line == wrapper));
    let agent = facts(&report, "agent");
    for (name, value) in [("CapBnd", "0000000000000000"), ("NoNewPrivs", "1"), ("Seccomp", "2")] {
        assert_eq!(agent.get(name), Some(&value), "{name}: {agent:?}");
    }
    let filtered: Vec<_> = report.values("filtered").collect();
    let parts = ["on the node", "RestrictSUIDSGID=", "SystemCallFilter="];
    assert_tells(&filtered.join("\n"), &parts);
    Ok(())
}
