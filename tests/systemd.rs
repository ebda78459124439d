//! Machines with systemd as their init: the units of `deploy/guest/systemd` and `deploy/host` in a
//! real boot, and what they say about themselves.
//!
//! The root file system is made of Debian's systemd (`qemu-fixtures/systemd`); the agent is a
//! stand-in that reports what it finds.

mod agent_config;
mod agents;
mod node_agent;
mod overlay;
mod stock_agent;
mod units;

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use end_to_end::{assert_no_secret, assert_tells, side_by_side, site};
use overlay::{Overlay, UNITS, workspace};
use vm_harness::site::sample_initdata;
use vm_harness::{Evidence, Report, Scenario, Site, demo};

/// A property of a unit, as `systemctl show` has it at the end.
fn property<'a>(report: &'a Report, unit: &str, name: &str) -> Result<&'a str> {
    let start = format!("{unit} {name}=");
    report
        .values("unit")
        .find_map(|line| line.strip_prefix(&start))
        .with_context(|| format!("no {name} of {unit}:\n{}", report.console))
}

/// When something happened, in microseconds of the guest's clock.
fn moment(report: &Report, unit: &str, name: &str) -> Result<u64> {
    let name = format!("{name}TimestampMonotonic");
    let micros: u64 = property(report, unit, &name)?.parse()?;
    ensure!(micros > 0, "{unit}: {name} never came:\n{}", report.console);
    Ok(micros)
}

/// What a script marked `mark NAME=VALUE`; the first of a name.
fn facts<'a>(report: &'a Report, mark: &'a str) -> BTreeMap<&'a str, &'a str> {
    let mut facts = BTreeMap::new();
    for (name, value) in report.values(mark).filter_map(|line| line.split_once('=')) {
        facts.entry(name).or_insert(value);
    }
    facts
}

/// The agent never started, and the image puller neither, because of how the processor ended.
fn assert_no_agent(report: &Report, how: &str) -> Result<()> {
    assert_eq!(report.value("agent"), None, "{}", report.console);
    for unit in ["initdata.target", "imagepuller.service", "kata-agent.service"] {
        assert_eq!(property(report, unit, "ActiveState")?, "inactive", "{unit}");
    }
    assert_eq!(property(report, "initdata-processor.service", "Result")?, how);
    Ok(())
}

#[test]
fn the_agent_starts_when_policy_and_puller_are_there() -> Result<()> {
    let site = site()?;
    let mut overlay = Overlay::installed()?;
    let inside = "[Service]\nExecStartPost=/bin/sh /job/inside\n";
    overlay.drop_in("initdata-processor.service", inside)?;
    overlay.script("again")?;
    let report = overlay.boot(site.scenario())?;
    assert_no_secret(&site, &report.console);
    assert_order(&report)?;
    assert_found_by_the_agent(&report)?;
    assert_usable_image(&site, &report)?;
    assert_sandboxes(&report);
    assert_less_is_too_little(&report);
    assert_eq!(report.value("failed"), None, "a unit failed");
    Ok(())
}

/// Drivers, processor, puller, agent; each ready before the next one starts.
fn assert_order(report: &Report) -> Result<()> {
    let processor = moment(report, "initdata-processor.service", "ExecMainExit")?;
    let agent = moment(report, "kata-agent.service", "ExecMainStart")?;
    assert!(processor < agent, "{processor} {agent}");
    let modules: Vec<_> = report.values("modprobe").collect();
    for name in
        ["virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod", "nvme", "sev_guest", "tdx_guest"]
    {
        assert!(modules.contains(&name), "{name} is missing: {modules:?}");
    }
    // The kernel's log has the program's own words, here without a journald.
    assert!(report.values("log").any(|line| line.contains("verified")));
    Ok(())
}

fn assert_found_by_the_agent(report: &Report) -> Result<()> {
    let found: Vec<_> = report.values("config").collect();
    for line in [
        "644 0:0 /run/measured-cfg/policy.rego",
        "644 0:0 /run/measured-cfg/aa.toml",
        "600 0:0 /run/insecure-cfg/imagepuller.toml",
    ] {
        assert!(found.contains(&line), "{line} is missing: {found:?}");
    }
    assert_eq!(report.value("initdata"), None, "the accepted disk");
    let rule = "AllowRequestsFailingPolicy := true";
    assert!(report.values("policy").any(|line| line.contains(rule)));
    assert_eq!(report.value("socket"), Some("socket 600 0:0"));
    let status = property(report, "imagepuller.service", "StatusText")?;
    assert_tells(status, &["/run/guest-services/imagepull.socket"]);
    Ok(())
}

/// Mounted by the puller, the image is there for the agent, and everything works that a container
/// may do to it.
fn assert_usable_image(site: &Site, report: &Report) -> Result<()> {
    assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
    assert_eq!(report.value("answer"), Some(site.layout.manifest.as_str()));
    assert_eq!(report.value("mount"), Some("1"), "the agent sees the mount");
    assert_eq!(demo::files(report)?, site.layout.files);
    let writes: Vec<_> = report.values("write").take(7).collect();
    let failed = writes.iter().find(|write| !write.ends_with(" ok"));
    assert_eq!((writes.len(), failed), (7, None));
    assert_eq!(report.value("run"), Some("pulled inside the guest"));
    assert_eq!(report.value("store"), Some("1"), "a tmpfs of its own");
    Ok(())
}

/// The walls of the units. What is closed inside the processor's is open outside, so each line
/// could fail.
fn assert_sandboxes(report: &Report) {
    let inside = facts(report, "inside");
    let outside = facts(report, "outside");
    for (name, value) in [
        ("CapBnd", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("network", "1"),
        ("write-usr", "no"),
        ("write-tmp", "no"),
        ("write-sys", "no"),
        ("write-disk", "no"),
        ("open-kernel", "no"),
        ("mount", "no"),
        ("chown", "no"),
        ("inet", "no"),
    ] {
        assert_eq!(inside.get(name), Some(&value), "{name}: {inside:?}");
        let without = outside.get(name).unwrap_or(&value);
        assert_ne!(without, &value, "{name}: {outside:?}");
    }
    for name in ["write-run", "read-disk"] {
        assert_eq!(inside.get(name), Some(&"yes"), "{name}: {inside:?}");
    }
    let puller = facts(report, "puller");
    for (name, value) in [
        ("CapBnd", "000000008920021f"),
        ("CapEff", "000000008920021f"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("namespace", "shared"),
    ] {
        assert_eq!(puller.get(name), Some(&value), "{name}: {puller:?}");
    }
}

/// Why imagepuller.service has capabilities that the program does not use, and no mount namespace.
fn assert_less_is_too_little(report: &Report) {
    assert_eq!(report.values("restart").collect::<Vec<_>>(), ["active"; 2]);
    assert_eq!(report.values("pull").collect::<Vec<_>>(), ["exit 0"; 3]);
    // Without CAP_CHOWN for the puller nobody can give away a file of the image.
    let chown = report.values("write").nth(7).unwrap_or_default();
    assert_tells(chown, &["chown", "failed", "not permitted"]);
    // In a mount namespace the puller succeeds, and the agent sees nothing, whatever MountFlags
    // says.
    let visible: Vec<_> = report.values("mount").collect();
    assert_eq!(visible, ["1", "1", "0"]);
    // The agent went on while its puller was restarted, and so did the first mount.
    assert_eq!(report.value("first"), Some("1"));
    // The disk can be read again, in the same sandbox.
    assert_eq!(report.value("watcher"), Some("600 0:0"));
    assert_eq!(report.value("refresh"), Some("active"));
}

/// Loads the disks' driver a while after everything else is there.
const LATE: &str = "[Service]\nExecStart=/bin/sh -c 'sleep 1; insmod /modules/virtio_blk.ko'\n";

#[test]
fn refused_initdata_lets_the_agent_start_and_say_so() -> Result<()> {
    let site = site()?;
    let mut overlay = Overlay::installed()?;
    // And disks that come late are noticed in the sandbox: without that the reason would be
    // another.
    overlay.file("job/late", 0o644, b"")?;
    overlay.file(&format!("{UNITS}/late.service"), 0o644, LATE.as_bytes())?;
    overlay.drop_in(
        "initdata-processor.service",
        "[Unit]\nWants=late.service\nAfter=late.service\n",
    )?;
    overlay.file("etc/initdata-processor.toml", 0o644, b"wait = 20\n")?;
    let report = overlay.boot(Scenario { evidence: Evidence::Snp([7; 32]), ..site.scenario() })?;
    let state = property(&report, "initdata-processor.service", "ActiveState")?;
    assert_eq!(state, "active");
    assert!(report.value("agent").is_some(), "{}", report.console);
    let policy: Vec<&str> = report.values("policy").collect();
    let policy = policy.join("\n");
    assert_tells(&policy, &["default CreateContainerRequest := false"]);
    assert_tells(&policy, &["digest", "HOSTDATA"]);
    assert!(!policy.contains(":= true"), "{policy}");
    // Nor can the agent find the refused document by itself.
    assert_eq!(report.value("initdata"), None, "{}", report.console);
    assert_ne!(report.value("pull"), Some("exit 0"));
    let error: Vec<&str> = report.values("error").collect();
    assert_tells(&error.join(" "), &["initdata", "digest"]);
    assert_eq!(report.value("mount"), Some("0"));
    Ok(())
}

/// The two halves of 60-policy.conf open nothing one without the other.
#[test]
fn an_agent_without_the_policy_does_not_start_after_a_refusal() -> Result<()> {
    let halves = [
        ("neither half", ["kata-agent", "initdata-processor"].as_slice()),
        ("the processor's only", &["kata-agent"]),
        ("the agent's only", &["initdata-processor"]),
    ];
    side_by_side(&halves, |missing| {
        let mut overlay = Overlay::installed()?;
        for unit in *missing {
            overlay.without_policy(unit)?;
        }
        // Nothing allows initdata that nobody verifies.
        let report =
            overlay.boot(Scenario { initdata: Some(sample_initdata()), ..Scenario::bare("") })?;
        let processor = "initdata-processor.service";
        let state = property(&report, processor, "ActiveState")?;
        let is_relaxed = !missing.contains(&"initdata-processor");
        assert_eq!(state, if is_relaxed { "active" } else { "failed" });
        assert_eq!(property(&report, processor, "ExecMainStatus")?, "65");
        assert_eq!(report.value("agent"), None, "{}", report.console);
        assert_eq!(property(&report, "kata-agent.service", "ActiveState")?, "inactive");
        Ok(())
    })
}

/// A configuration that is refused is no reason to keep an agent off, however it was built.
#[test]
fn a_refused_configuration_keeps_no_agent_off() -> Result<()> {
    let mut overlay = Overlay::installed()?;
    for unit in ["kata-agent", "initdata-processor"] {
        overlay.without_policy(unit)?;
    }
    let report = overlay.boot(Scenario {
        evidence: Evidence::Snp([0; 32]),
        disks: vec![b"imgpullr\xff\xff\xff\xff\xff\xff\xff\x7f".repeat(32)],
        ..Scenario::bare("")
    })?;
    let refused = "600 0:0 /run/insecure-cfg/imagepuller.error";
    assert!(report.values("config").any(|line| line == refused), "{}", report.console);
    assert!(report.value("agent").is_some(), "{}", report.console);
    Ok(())
}

#[test]
fn an_owner_fits_in_the_sandbox() -> Result<()> {
    let initdata = sample_initdata();
    let mut overlay = Overlay::installed()?;
    // Accepted initdata needs no policy of ours for the agent to start.
    overlay.without_policy("kata-agent")?;
    // And the configuration can be given to somebody, where the sandbox is opened for that.
    let owner = workspace().join("deploy/guest/optional/owner.conf");
    let owner = fs::read_to_string(owner)?;
    overlay.drop_in("initdata-processor.service", &owner)?;
    overlay.drop_in("initdata-processor-refresh.service", &owner)?;
    let settings = b"owner = \"7:8\"\n";
    overlay.file("etc/initdata-processor.toml", 0o644, settings)?;
    let report = overlay.boot(Scenario {
        document: Some("[registries]\n".to_owned()),
        evidence: Evidence::snp(&initdata),
        initdata: Some(initdata),
        ..Scenario::bare("")
    })?;
    let given = "600 7:8 /run/insecure-cfg/imagepuller.toml";
    assert!(report.values("config").any(|line| line == given));
    assert_eq!(report.value("watcher"), Some("600 7:8"), "who may ask");
    assert!(report.value("agent").is_some(), "{}", report.console);
    Ok(())
}

#[test]
fn a_missing_processor_keeps_the_agent_off() -> Result<()> {
    let mut overlay = Overlay::installed()?;
    // As good as no file: nothing that can be started.
    overlay.file("usr/bin/initdata-processor", 0o644, b"")?;
    assert_no_agent(&overlay.boot(Scenario::bare(""))?, "exit-code")
}

#[test]
fn a_killed_processor_keeps_the_agent_off() -> Result<()> {
    let mut overlay = Overlay::installed()?;
    let killed = b"#!/bin/sh\nkill -KILL $$\n";
    overlay.file("usr/bin/initdata-processor", 0o755, killed)?;
    assert_no_agent(&overlay.boot(Scenario::bare(""))?, "signal")
}
