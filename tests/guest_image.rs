//! Guest images made as `docs/guest` says, with the builders themselves, and booted.

mod initrd;
mod mkosi;
mod stage;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::Result;
use end_to_end::{assert_no_secret, assert_tells, run, site};
use stage::{Stage, add_to_initrd, deploy, succeed};
use vm_harness::fixture::{Fixture, modules_folder};
use vm_harness::initramfs::Initramfs;
use vm_harness::{Evidence, Kernel, Report, Scenario, Scratch, Site, demo, is_root, program};

/// A guest without a TEE, whose kernel parameter lets initdata be accepted.
fn scenario(site: &Site) -> Scenario {
    Scenario {
        evidence: Evidence::None,
        kernel_parameters: vec!["configdev.allow_unverified_initdata=1".to_owned()],
        ..site.scenario()
    }
}

/// What `configdev-smoke` says of an image with the units, and its exit code. The puller is asked
/// at its own socket, where `stock-agent` is not in the image.
fn smoke(initrd: &Path) -> Result<(Option<i32>, String)> {
    println!("{} bytes", fs::metadata(initrd)?.len());
    let kernel = &Fixture::find()?.kernel;
    let mut arguments = vec!["--kernel".as_ref(), kernel.as_os_str()];
    arguments.extend(["--initrd".as_ref(), initrd.as_os_str()]);
    arguments.extend(["--socket", "/run/guest-services/imagepull.socket"].map(OsStr::new));
    arguments.extend(["--append", "agent.guest_components_procs=none"].map(OsStr::new));
    arguments.extend(["--timeout", "600", "--keep-console"].map(OsStr::new));
    let console = initrd.with_extension("console");
    arguments.push(console.as_os_str());
    let (code, text) = stage::run(program("configdev-smoke")?, arguments)?;
    println!("{text}");
    Ok((code, text))
}

/// Boots an image whose agent is a script of the test's, and finds policy, puller and image.
fn assert_boots(site: &Site, scenario: &Scenario, initrd: &Path) -> Result<Report> {
    let report = run(&Scenario { initrd: Some(initrd.to_owned()), ..scenario.clone() })?;
    println!("{}", report.console);
    println!("{} bytes", fs::metadata(initrd)?.len());
    assert_no_secret(site, &report.console);
    let found: Vec<_> = report.values("config").collect();
    for line in
        ["644 0:0 /run/measured-cfg/policy.rego", "600 0:0 /run/insecure-cfg/imagepuller.toml"]
    {
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
    fs::rename(stage.0.join("usr/bin/kata-agent"), stage.0.join("sbin/init"))?;
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

/// The initrd of Debian's dracut, with the test's kernel, gets the units. Then the agent's unit
/// loses what makes it wait, which a builder easily forgets. Nothing starts the processor then, and
/// nothing loads the drivers of disks, which its unit does. Nor is there a vsock for the agent.
#[test]
fn privileged_an_initrd_of_dracut_with_the_units() -> Result<()> {
    if !is_root("owners and device nodes of an initrd") {
        return Ok(());
    }
    let scratch = Scratch::new()?;
    let stage = Stage::with_units(&scratch)?;
    let path = |name: &str| scratch.path().join(name);
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
    let (code, text) = smoke(&path("output"))?;
    assert_eq!(code, Some(0), "{text}");

    let emptied = Stage(path("emptied"));
    for name in ["50-configdev.conf", "60-policy.conf"] {
        let drop_in = format!("usr/lib/systemd/system/kata-agent.service.d/{name}");
        emptied.file(&drop_in, 0o644, b"")?;
    }
    let release = modules.file_name().unwrap_or_default().to_string_lossy();
    let vsock = format!("usr/lib/modules/{release}/kernel/net/vmw_vsock/vsock.ko");
    emptied.file(&vsock, 0o644, b"")?;
    // The kernel unpacks an archive behind another one over it.
    let mut both = fs::read(path("output"))?;
    both.resize(both.len().next_multiple_of(512), 0);
    both.extend(initrd::archive(&emptied.0)?);
    fs::write(path("both"), both)?;
    let (code, text) = smoke(&path("both"))?;
    assert_eq!(code, Some(2), "{text}");
    assert_tells(&text, &["error: processor: ", "it did not run before the agent"]);
    assert_tells(&text, &["error: vsock: ", "Address family not supported"]);
    Ok(())
}
