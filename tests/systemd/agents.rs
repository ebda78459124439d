//! Which policy an agent ends up with, whatever the host does and however the agent was built:
//! every cell of the table in docs/guest.md, with a stand-in for the agent
//! (`qemu-fixtures/agents`).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use config_image::{Magic, encode};
use sha2::{Digest, Sha256};
use vm_harness::layout::hex;
use vm_harness::{Guest, Report, Scenario, Scratch, despite_crash};

use crate::systemd::overlay::{Overlay, UNITS, workspace};

/// For guests without systemd: the example, once for each cell.
const INIT: &str = r#"
mkdir -p /usr/bin /usr/local/bin /etc/kata-opa
mv /job/default-policy /etc/kata-opa/default-policy.rego
program() { cp "$1" "$2"; chmod 755 "$2"; }
program /job/strict-agent /usr/bin/kata-agent
insmod /modules/loop.ko
wall=/run/confidential-containers/.initdata
start() {
    init=/job/init-example
    [ "$1" != plain ] || init=/job/init-plain
    setsid sh $init &
    wait $!
    kill -KILL -$! 2>/dev/null
}
clean() { while umount $wall 2>/dev/null; do :; done; rm -rf /run/*; }
. /job/cells

# swap NUMBER: the host changes the bytes of this disk, and the kernel forgets what it has read.
cat >/tmp/swap <<'END'
. /job/mark
disk=$(basename "$(dirname "$(grep -lx "plug$number" /sys/block/*/serial)")")
[ -e "/dev/$disk" ] || disk=.initdata/$disk
before=$(sha256sum <"/dev/$disk")
mark swap "$number"
while [ "$(sha256sum <"/dev/$disk")" = "$before" ]; do
    usleep 100000
    echo 3 >/proc/sys/vm/drop_caches
done
END
set_disk copy
program /job/attestation-agent /usr/local/bin/attestation-agent
cell copy initdata "$good" "$accepted"
echo "$plug" >/tmp/before
cell copy-plugged initdata "$good" "$accepted"
set_disk remove
for kind in initdata policies; do
    cell remove-plugged $kind "$good" "$accepted"
    cell none-plugged $kind - $zero
    cell refused-plugged $kind "$good" $zero
done
rm /usr/local/bin/attestation-agent
set_disk keep
cell keep-plugged initdata "$good" "$accepted"
cell keep-refused initdata "$good" $zero
(echo number=1; cat /tmp/swap) >/tmp/before
cell keep-swapped initdata "$swap1" "$accepted"
set_disk copy
(echo number=2; cat /tmp/swap) >/tmp/before
cell copy-swapped initdata "$swap2" "$accepted"
silent_cell
"#;

/// In the place of the unit that looks at the result.
const UNIT: &str = r#"
. /job/mark
mkdir -p /etc/kata-opa
mv /job/default-policy /etc/kata-opa/default-policy.rego
/sbin/modprobe virtio_blk
start() {
    ours=/usr/lib/systemd/system/kata-agent.service.d/60-policy.conf
    [ "$1" != plain ] || mv $ours /tmp/60-policy.conf
    systemctl daemon-reload
    systemctl start kata-agent
    [ "$1" != plain ] || mv /tmp/60-policy.conf $ours
}
clean() {
    systemctl stop imagepuller initdata.target initdata-processor kata-agent
    rm -rf /run/confidential-containers
}
. /job/cells
echo "$plug" >/tmp/before
cell remove-plugged initdata "$good" "$accepted"
rm /tmp/before
set_disk copy
mkdir -p /usr/local/bin
mv /job/attestation-agent /usr/local/bin
chmod 755 /usr/local/bin/attestation-agent
cell copy initdata "$good" "$accepted"
silent_cell
mark done
poweroff -f
"#;

/// What the agent ends up with: state of initdata, and the agent built with policies, without, or
/// with its own initdata processing too.
const CELLS: &[(&str, &str, &str, &str)] = &[
    ("none", "image", "no policy", "image"),
    ("policy", "document", "no policy", "document"),
    ("bare", "image", "no policy", "image"),
    ("refused", "deny-all", "no agent", "deny-all"),
];

/// What a host can still do once the verdict is in place, by what the image's settings say.
const ATTACKS: &[&str] = &[
    "copy, initdata: serves under document, token with initdata",
    "copy-plugged, initdata: ends: attestation agent refuses",
    "remove-plugged, initdata: ends: cannot write initdata.toml",
    "none-plugged, initdata: ends: cannot write initdata.toml",
    "refused-plugged, initdata: ends: cannot write initdata.toml",
    // The other half: these agents do not look.
    "remove-plugged, policies: serves under document, token",
    "none-plugged, policies: serves under image, token",
    "refused-plugged, policies: serves under deny-all, token",
    // What both attacks do where the disk stays and nobody else checks.
    "keep-plugged, initdata: serves under foreign",
    // But not after a refusal.
    "keep-refused, initdata: ends: cannot write initdata.toml",
    "keep-swapped, initdata: serves under foreign",
    "copy-swapped, initdata: serves under document",
    SILENT,
];

/// A disk stops answering: the pod reads which, and the agent does not hang on it.
const SILENT: &str = "silent, initdata: serves under deny-all";

fn document(policy: Option<&str>) -> String {
    let policy = policy.map(|whose| {
        format!("\"policy.rego\" = '''\n# policy of the {whose}\npackage agent_policy\n'''\n")
    });
    format!(
        "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n\"aa.toml\" = \"\"\n{}",
        policy.unwrap_or_default()
    )
}

/// The disks, with their content in `scratch`, and the files that every guest of these tests has in
/// `/job`.
fn scenario(scratch: &Scratch) -> Result<Scenario> {
    let [good, bare, foreign] = [Some("document"), None, Some("foreign")].map(document);
    let digest = |text: &str| hex(&Sha256::digest(text));
    let digests = format!(
        "accepted={}\naccepted_bare={}\nzero={}\n",
        digest(&good),
        digest(&bare),
        "0".repeat(64)
    );
    let mut files = vec![
        ("job/digests".to_owned(), digests.into_bytes()),
        (
            "job/default-policy".to_owned(),
            b"# policy of the image\npackage agent_policy\n".to_vec(),
        ),
    ];
    let fixtures = workspace().join("qemu-fixtures");
    for (name, from) in [
        ("strict-agent", "agents/agent"),
        ("attestation-agent", "agents/attestation-agent"),
        ("cells", "agents/cells"),
        ("mark", "systemd/mark"),
    ] {
        files.push((format!("job/{name}"), fs::read(fixtures.join(from))?));
    }
    let mut arguments = Vec::new();
    for (number, text) in [&good, &good, &good, &bare, &foreign].iter().enumerate() {
        let image = encode(Magic::INITDATA, text.as_bytes())?;
        let path = scratch.write(&format!("plug{number}.img"), image)?;
        let path = path.display();
        arguments.extend([
            "-drive".into(),
            format!("if=none,id=plug{number},readonly=on,format=raw,file={path}").into(),
            "-device".into(),
            format!("virtio-blk-pci,drive=plug{number},serial=plug{number}").into(),
        ]);
    }
    Ok(Scenario { arguments, files, ..Scenario::bare(INIT) })
}

#[track_caller]
fn assert_cells(report: &Report, more: &[&str]) {
    println!("{}", report.console);
    let mut expected = Vec::new();
    for (number, kind) in ["policies", "plain", "initdata"].iter().enumerate() {
        for (state, policies, plain, initdata) in CELLS {
            let ends = match [policies, plain, initdata][number] {
                &"no agent" => "no agent".to_owned(),
                &"no policy" => "serves under none".to_owned(),
                whose => format!("serves under {whose}"),
            };
            expected.push(format!("{state}, {kind}: {ends}"));
        }
    }
    expected.extend(more.iter().map(|line| (*line).to_owned()));
    let found: Vec<_> = report.values("cell").collect();
    assert_eq!(found, expected);
    // What the agent hands to the runtime with each denial, and so the pod's event.
    let found = report.value("reason").unwrap_or_default();
    let disk = found.split(' ').next().unwrap_or_default().trim_start_matches("/dev/");
    let text = format!("failed to read disk {disk}: it does not answer in time, 2 s");
    assert_eq!(found, format!("/dev/{disk} reason := \"{text}\""));
}

#[test]
fn no_agent_runs_under_a_foreign_policy_without_systemd() -> Result<()> {
    let example = fs::read_to_string(workspace().join("deploy/guest/init-example"))?;
    // A machine that is turned off has no agent, but here it has further cells.
    let example = replaced(&example, "poweroff -f", "kill -KILL $$")?;
    let plain = replaced(&example, "export KATA_AGENT_POLICY_FILE=", ": ")?;
    let scratch = Scratch::new()?;
    let mut scenario = scenario(&scratch)?;
    for (name, text) in [("init-example", example), ("init-plain", plain)] {
        scenario.files.push((format!("job/{name}"), text.into_bytes()));
    }
    let foreign = encode(Magic::INITDATA, document(Some("foreign")).as_bytes())?;
    let report = despite_crash(|| {
        let disks = [1, 2].map(|number| scratch.path().join(format!("plug{number}.img")));
        let mut swapped = Ok(());
        let report = boot(&scenario, |console| {
            for (number, disk) in (1..).zip(&disks) {
                if console.contains(&format!(" swap {number}\r\n")) {
                    swapped = swap(disk, &foreign);
                }
            }
        })?;
        swapped.context("a disk was not swapped")?;
        Ok(report)
    })?;
    assert_cells(&report, ATTACKS);
    Ok(())
}

/// Boots the guest. The first disk answers no more, and answers again, when its job says so.
fn boot(scenario: &Scenario, mut hear: impl FnMut(&str)) -> Result<Report> {
    let mut guest = Guest::boot(scenario)?;
    let mut qmp = guest.qmp()?;
    let mut done = [None, None];
    let report = guest.finish(|console| {
        hear(console);
        for (word, done) in ["on", "off"].into_iter().zip(&mut done) {
            if done.is_none() && console.contains(&format!(" silent {word}\r\n")) {
                *done = Some(qmp.throttle("plug0", word == "on"));
            }
        }
    })?;
    for step in done {
        step.context("the disk was not silenced")??;
    }
    Ok(report)
}

fn replaced(text: &str, old: &str, new: &str) -> Result<String> {
    ensure!(text.contains(old), "the example has no {old:?}");
    Ok(text.replace(old, new))
}

/// The same bytes twice do no harm.
fn swap(disk: &Path, image: &[u8]) -> Result<()> {
    let file = File::options().write(true).open(disk)?;
    Ok(file.write_all_at(image, 0)?)
}

#[test]
fn no_agent_runs_under_a_foreign_policy_with_systemd() -> Result<()> {
    let scratch = Scratch::new()?;
    let scenario = scenario(&scratch)?;
    let mut overlay = Overlay::installed()?;
    // The agent starts when a cell says so, and its end is the start's.
    let target = "[Unit]\nRequires=basic.target tmp.mount\nAfter=basic.target\nAllowIsolate=yes\n\
                  Wants=observer.service\n";
    overlay.file(&format!("{UNITS}/kata-containers.target"), 0o644, target.as_bytes())?;
    let once = "[Unit]\nFailureAction=none\n[Service]\nType=oneshot\nFailureAction=none\n\
                ExecStart=\nExecStart=/bin/busybox sh /job/strict-agent\n";
    overlay.drop_in("kata-agent.service", once)?;
    let copy = workspace().join("deploy/guest/optional/accepted-disk-copy.conf");
    overlay.drop_in("initdata-processor.service", &fs::read_to_string(copy)?)?;
    let observer = "[Service]\nExecStart=\nExecStart=/bin/sh /job/unit\n";
    overlay.drop_in("observer.service", observer)?;
    overlay.file("job/unit", 0o644, UNIT.as_bytes())?;
    for (path, content) in &scenario.files {
        overlay.file(path, 0o644, content)?;
    }
    let scenario = overlay.scenario(Scenario { files: Vec::new(), ..scenario })?;
    let report = despite_crash(|| boot(&scenario, |_| ()))?;
    // The attestation agent is there by then.
    let silent = format!("{SILENT}, token");
    assert_cells(&report, &[ATTACKS[2], ATTACKS[0], &silent]);
    Ok(())
}
