//! The units as systemd's own tools see them, without a boot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use end_to_end::assert_tells;
use vm_harness::{Program, Scratch};

use crate::overlay::{units, workspace};

/// The units with the paths of the real programs, and the agent's that they refer to, in a
/// directory for systemd's own tools.
fn unit_folder(scratch: &Scratch) -> Result<PathBuf> {
    let folder = scratch.path().join("units");
    let fixture = workspace().join("qemu-fixtures/systemd/units/kata-agent.service");
    for unit in units()?.iter().chain([&fixture]) {
        let name = unit.strip_prefix(workspace().join("deploy/guest/systemd"));
        let target = folder.join(name.unwrap_or(Path::new("kata-agent.service")));
        fs::create_dir_all(target.parent().context("a folder")?)?;
        let mut text = fs::read_to_string(unit)?;
        for program in [Program::InitdataProcessor, Program::Imagepuller] {
            let installed = format!("/usr/bin/{} ", program.name());
            let built = format!("{} ", program.path()?.display());
            text = text.replace(&installed, &built);
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
        "imagepuller.service",
        "run-imagepuller.mount",
        "initdata-processor-refresh@imagepuller.service",
        "kata-agent.service",
    ];
    assert_eq!(analyze(&folder, &verify, &all)?, (true, String::new()));

    for (unit, threshold) in [
        ("initdata-processor.service", "--threshold=18"),
        ("imagepuller.service", "--threshold=48"),
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
        let directives = text
            .lines()
            .skip_while(|line| *line != "StandardOutput=tty");
        Ok(directives
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .filter(|line| !line.starts_with("Timeout"))
            .map(ToOwned::to_owned)
            .collect())
    };
    let first = sandbox("initdata-processor.service")?;
    assert!(first.len() > 20, "{first:?}");
    assert_eq!(first, sandbox("initdata-processor-refresh@.service")?);
    Ok(())
}
