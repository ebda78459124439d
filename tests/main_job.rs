//! The main job: a document goes in on the node, an image comes out mounted inside the guest.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::{assert_no_secret, run, side_by_side, site};
use vm_harness::site::sample_initdata;
use vm_harness::{Evidence, Guest, Report, Scenario, Scratch, Site, demo};

/// What holds for every guest that got its image.
fn assert_pulled(site: &Site, report: &Report) -> Result<()> {
    assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
    assert_eq!(report.value("answer"), Some(site.layout.manifest.as_str()));
    assert_eq!(report.value("mount"), Some("1"));
    assert_eq!(demo::files(report)?, site.layout.files);
    assert_no_secret(site, &report.console);
    Ok(())
}

/// The guest's `config` line for `path`: mode, owner, size, digest.
fn written<'a>(report: &'a Report, path: &str) -> Option<Vec<&'a str>> {
    let suffix = format!(" {path}");
    let line = report.values("config").find(|value| value.ends_with(&suffix))?;
    Some(line.split(' ').collect())
}

#[test]
fn image_is_pulled_checked_and_mounted_inside_the_guest() -> Result<()> {
    let site = site()?;
    let scenario = site.scenario();
    let guest = Guest::boot(&scenario)?;

    // The wrapper has become QEMU, under the number it was started with, and shows no secret to the
    // node's users.
    let process = format!("/proc/{}", guest.id());
    // A process that becomes another program has no arguments for a moment.
    let arguments = || -> Result<String> {
        let bytes = fs::read(format!("{process}/cmdline"))?;
        Ok(String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    let is_qemu = || -> Result<bool> {
        let program = fs::read_link(format!("{process}/exe"))?;
        Ok(program.ends_with("qemu-system-x86_64") && !arguments()?.is_empty())
    };
    let mut tries = 0;
    while !is_qemu()? && tries < 6000 {
        tries += 1;
        sleep(Duration::from_millis(10));
    }
    let arguments = arguments()?;
    assert!(arguments.starts_with("/usr/bin/qemu-system-x86_64 -name sandbox-"), "{arguments}");
    assert!(arguments.contains("serial=imagepuller"), "{arguments}");
    assert_no_secret(&site, &arguments);

    let report = guest.finish(|_| ())?;
    assert_pulled(&site, &report)?;
    assert_eq!(report.value("run"), Some("pulled inside the guest"), "a program of the image runs");
    // Where the guest's console goes to the node's journal, the pull is told there.
    let told = |words: &[&str]| {
        let mut lines = report.console.lines();
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    };
    for words in [
        &["pull begins", &site.layout.manifest][..],
        &["fetched", "sources=\"registry.corp", " bytes at ", " bytes/s"],
    ] {
        assert!(told(words), "{words:?} is missing in:\n{}", report.console);
    }
    assert_eq!(
        report.values("link").collect::<Vec<_>>(),
        ["./bin/sh -> busybox", "./lib/libc.so.6 -> libc-2.36.so"]
    );
    let hard = report.values("file").filter(|v| v.contains(" 2 ")).count();
    assert_eq!(hard, 2, "both names of the hard link count two links");

    assert_eq!(report.value("disk"), Some("read-only 1 written no changed no"));

    let document = scenario.document.context("the scenario has a document")?;
    let copied =
        written(&report, "/run/insecure-cfg/imagepuller.toml").context("no configuration")?;
    assert_eq!(copied[..3], ["600", "0:0", &document.len().to_string()]);
    assert!(written(&report, "/run/measured-cfg/aa.toml").is_some());
    assert!(written(&report, "/run/measured-cfg/policy.rego").is_some());
    assert!(
        report.values("policy").any(|line| line.contains("AllowRequestsFailingPolicy := true"))
    );
    assert_eq!(report.value("serving"), Some("600 0:0"), "the socket is for root only");
    Ok(())
}

/// A document by the pod's annotation, evidence by TDX, and no TEE with the kernel parameter.
#[test]
fn other_ways_to_be_let_in() -> Result<()> {
    let site = site()?;
    let allowed = Scratch::new()?;
    let chosen = allowed.write("team-a.toml", site.document())?;
    let initdata = sample_initdata().replace("sha256", "sha384");
    let cases = [
        (
            "a pod chooses its document by annotation",
            Scenario {
                document: Some("[registries]\n".to_owned()),
                annotation_allow: vec![allowed.path().to_owned()],
                annotations: vec![(
                    "io.katacontainers.config.runtime.imagepuller_config".to_owned(),
                    chosen.display().to_string(),
                )],
                ..site.scenario()
            },
        ),
        (
            "TDX evidence works as SNP does",
            Scenario {
                evidence: Evidence::tdx(&initdata),
                initdata: Some(initdata),
                ..site.scenario()
            },
        ),
        (
            "without a TEE a guest to which nobody sent initdata needs no parameter",
            Scenario { evidence: Evidence::None, initdata: None, ..site.scenario() },
        ),
        (
            "without a TEE only the kernel parameter lets a guest with initdata go on",
            Scenario {
                evidence: Evidence::None,
                kernel_parameters: vec!["configdev.allow_unverified_initdata=1".to_owned()],
                ..site.scenario()
            },
        ),
    ];
    side_by_side(&cases, |scenario| {
        let report = run(scenario)?;
        assert_pulled(&site, &report)?;
        let entry = written(&report, "/run/measured-cfg/aa.toml");
        assert_eq!(entry.is_some(), scenario.initdata.is_some());
        Ok(())
    })
}
