//! The units as systemd's own tools see them, without a boot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use end_to_end::assert_tells;
use vm_harness::{Program, Scratch};

use crate::systemd::overlay::{units, workspace};

/// The units with the paths of the real programs, and the agent's that they refer to, in a
/// directory for systemd's own tools.
fn unit_folder(scratch: &Scratch) -> Result<PathBuf> {
    let folder = scratch.path().join("units");
    let agent = "kata-agent.service";
    let fixture = workspace().join("qemu-fixtures/systemd/units").join(agent);
    let mut all = vec![(agent.into(), fixture)];
    for folder in ["systemd", "stock-agent", "coco"] {
        all.extend(units(folder)?);
    }
    let built = |program: Program| -> Result<String> { Ok(program.path()?.display().to_string()) };
    let programs = [
        ("/usr/bin/initdata-processor", built(Program::InitdataProcessor)?),
        ("/usr/bin/imagepuller", built(Program::Imagepuller)?),
        ("/usr/local/bin/confidential-data-hub", "/bin/true".to_owned()),
    ];
    for (name, unit) in all {
        let target = folder.join(name);
        fs::create_dir_all(target.parent().context("a folder")?)?;
        let mut text = fs::read_to_string(unit)?;
        for (installed, here) in &programs {
            text = text.replace(&format!("{installed} "), &format!("{here} "));
        }
        fs::write(target, text)?;
    }
    Ok(folder)
}

/// Runs `systemd-analyze` on `units`, which are looked for in `folder` first; says whether it is
/// content, and its words.
fn analyze(folder: &Path, arguments: &[&str], units: &[&str]) -> Result<(bool, String)> {
    let output = Command::new("systemd-analyze")
        .args(arguments)
        .args(units.iter().map(|unit| folder.join(unit)))
        .env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()))
        .output()
        .context("failed to run systemd-analyze: hack/packages test installs it")?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((output.status.success(), text))
}

#[test]
fn systemd_finds_no_fault_in_the_units() -> Result<()> {
    let scratch = Scratch::new()?;
    let folder = unit_folder(&scratch)?;
    let verify = ["verify", "--man=no"];
    let all = [
        "initdata-processor.service",
        "initdata.target",
        "initdata-read-only.service",
        "imagepuller.service",
        "run-imagepuller.mount",
        "imagepuller-hub.service",
        "confidential-data-hub.service",
        "attestation-agent.service",
        "initdata-processor-refresh.service",
        "kata-agent.service",
    ];
    assert_eq!(analyze(&folder, &verify, &all)?, (true, String::new()));

    for (unit, threshold) in [
        ("initdata-processor.service", "--threshold=18"),
        ("imagepuller.service", "--threshold=48"),
        ("imagepuller-hub.service", "--threshold=18"),
    ] {
        let security = ["security", "--offline=true", "--no-pager", threshold];
        let (within, text) = analyze(&folder, &security, &[unit])?;
        println!("{}", text.lines().last().unwrap_or_default());
        assert!(within, "{text}");
    }

    // A directive that is misspelt would be ignored in a guest.
    let path = folder.join("imagepuller.service");
    let text = fs::read_to_string(&path)?.replace("NoNewPrivileges", "NoNewPrivilege");
    fs::write(path, text)?;
    let (_, text) = analyze(&folder, &verify, &["imagepuller.service"])?;
    assert_tells(&text, &["Unknown key", "NoNewPrivilege"]);
    Ok(())
}

#[test]
fn a_refresh_has_the_sandbox_of_the_first_run() -> Result<()> {
    let sandbox = |name: &str| -> Result<Vec<String>> {
        let unit = workspace().join("deploy/guest/systemd").join(name);
        let text = fs::read_to_string(unit)?;
        let directives = text.lines().skip_while(|line| *line != "StandardOutput=tty");
        Ok(directives
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .filter(|line| !line.starts_with("Timeout"))
            // The one asks a TEE, the other listens.
            .filter(|line| !line.ends_with("_guest rw") && !line.ends_with("-guest rw"))
            .filter(|line| !line.starts_with("RestrictAddressFamilies="))
            .map(ToOwned::to_owned)
            .collect())
    };
    let first = sandbox("initdata-processor.service")?;
    assert!(first.len() > 20, "{first:?}");
    assert_eq!(first, sandbox("initdata-processor-refresh.service")?);
    Ok(())
}
