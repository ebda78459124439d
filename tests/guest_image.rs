//! Guest images made as `docs/guest` says, with the builders themselves, and booted.

#[path = "guest_image/initrd.rs"]
mod initrd;
#[path = "guest_image/mkosi.rs"]
mod mkosi;
#[path = "guest_image/stage.rs"]
mod stage;

use std::fs;
use std::path::Path;

use anyhow::Result;
use end_to_end::{assert_no_secret, run, site};
use stage::{Stage, add_to_initrd, deploy, succeed};
use vm_harness::fixture::modules_folder;
use vm_harness::initramfs::Initramfs;
use vm_harness::{Evidence, Kernel, Report, Scenario, Site, demo, is_root};

/// A guest without a TEE, whose kernel parameter lets initdata be accepted.
fn scenario(site: &Site) -> Scenario {
    Scenario {
        evidence: Evidence::None,
        kernel_parameters: vec!["configdev.allow_unverified_initdata=1".to_owned()],
        ..site.scenario()
    }
}

/// Boots an image, whose agent finds policy, puller and image.
fn assert_boots(site: &Site, scenario: &Scenario, initrd: &Path) -> Result<Report> {
    let report = run(&Scenario {
        initrd: Some(initrd.to_owned()),
        ..scenario.clone()
    })?;
    println!("{}", report.console);
    println!("{} bytes", fs::metadata(initrd)?.len());
    assert_no_secret(site, &report.console);
    let found: Vec<_> = report.values("config").collect();
    for line in [
        "644 0:0 /run/measured-cfg/policy.rego",
        "600 0:0 /run/insecure-cfg/imagepuller.toml",
    ] {
        assert!(found.contains(&line), "{line} is missing: {found:?}");
    }
    assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
    assert_eq!(demo::files(&report)?, site.layout.files);
    Ok(report)
}

/// An initrd as the kernel takes it, not as one tool writes it: microcode first, an archive without
/// compression, and one with. The agent is the first program, as in Kata's own.
#[test]
fn privileged_an_initramfs_whose_first_program_is_the_example() -> Result<()> {
    if !is_root("owners and device nodes of an initrd") {
        return Ok(());
    }
    let site = site()?;
    let scenario = scenario(&site);
    let stage = Stage::new(site.scratch(), &scenario, "bin")?;
    fs::create_dir(stage.0.join("sbin"))?;
    fs::rename(
        stage.0.join("usr/bin/kata-agent"),
        stage.0.join("sbin/init"),
    )?;
    let path = |name: &str| site.scratch().path().join(name);
    let shell = Initramfs::shell(&[])?.finish()?;
    fs::write(path("initrd"), initrd::concatenated(&shell, &stage.0)?)?;

    let example = deploy("init-example").display().to_string();
    let (code, text) = add_to_initrd(&["--init", &example], &path("initrd"), &path("output"))?;
    println!("{text}");
    assert_eq!(code, Some(0), "{text}");
    let report = assert_boots(&site, &scenario, &path("output"))?;
    assert_eq!(report.value("agent"), Some("started 1"), "as PID 1");
    Ok(())
}

/// The initrd of Debian's dracut, with the test's kernel, gets the units.
#[test]
fn privileged_an_initrd_of_dracut_with_the_units() -> Result<()> {
    if !is_root("owners and device nodes of an initrd") {
        return Ok(());
    }
    let site = site()?;
    let scenario = scenario(&site);
    let stage = Stage::new(site.scratch(), &scenario, "job/bin")?;
    stage.units()?;
    let path = |name: &str| site.scratch().path().join(name);
    let modules = modules_folder(Kernel::default())?;
    fs::create_dir(path("empty"))?;
    let made = succeed(
        "dracut",
        [
            "--conf".as_ref(),
            deploy("dracut/guest.conf").as_os_str(),
            "--confdir".as_ref(),
            path("empty").as_os_str(),
            "--kmoddir".as_ref(),
            modules.as_os_str(),
            "--include".as_ref(),
            stage.0.as_os_str(),
            "/".as_ref(),
            path("initrd").as_os_str(),
            modules.file_name().unwrap_or_default(),
        ],
    )?;
    println!("{made}");
    println!("dracut: {} bytes", fs::metadata(path("initrd"))?.len());
    let units = ["--units", "systemd"];
    let (code, text) = add_to_initrd(&units, &path("initrd"), &path("output"))?;
    println!("{text}");
    assert_eq!(code, Some(0), "{text}");
    let report = assert_boots(&site, &scenario, &path("output"))?;
    assert_eq!(report.value("failed"), None, "a unit failed");
    Ok(())
}
