//! What comes on top of Debian's systemd in a test's guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use end_to_end::run;
use vm_harness::{Program, Report, Scenario, Scratch};

/// Where units go in the guest.
pub const UNITS: &str = "usr/lib/systemd/system";

/// The checkout.
pub fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// What comes on top of Debian's part of the guest: this project's units and programs, as an image
/// builder installs them.
pub struct Overlay(tar::Builder<Vec<u8>>);

impl Overlay {
    /// Nothing yet.
    pub fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    /// The guest's units and programs, as this project has them.
    pub fn installed() -> Result<Self> {
        let mut overlay = Self::new();
        overlay.units("systemd")?;
        for program in [Program::InitdataProcessor, Program::Imagepuller] {
            let path = format!("usr/bin/{}", program.name());
            overlay.file(&path, 0o755, &fs::read(program.path()?)?)?;
        }
        Ok(overlay)
    }

    /// Adds the units of a folder of `deploy/guest`.
    pub fn units(&mut self, folder: &str) -> Result<()> {
        for (name, unit) in units(folder)? {
            let path = format!("{UNITS}/{}", name.display());
            self.file(&path, 0o644, &fs::read(&unit)?)?;
        }
        Ok(())
    }

    /// Adds a file, or replaces one: the last of a name stays.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        Ok(self.0.append_data(&mut header, path, content)?)
    }

    /// Adds one of the guest's scripts that are not in every guest.
    pub fn script(&mut self, name: &str) -> Result<()> {
        let script = fs::read(workspace().join("qemu-fixtures/systemd").join(name))?;
        self.file(&format!("job/{name}"), 0o644, &script)
    }

    /// Adds a drop-in for a unit.
    pub fn drop_in(&mut self, unit: &str, content: &str) -> Result<()> {
        let path = format!("{UNITS}/{unit}.d/90-test.conf");
        self.file(&path, 0o644, content.as_bytes())
    }

    /// As where the builder left out one half of what gives the agent our policy.
    pub fn without_policy(&mut self, unit: &str) -> Result<()> {
        let path = format!("{unit}.service.d/60-policy.conf");
        let units = workspace().join("deploy/guest/systemd");
        ensure!(units.join(&path).exists(), "no {path}");
        self.file(&format!("{UNITS}/{path}"), 0o644, b"")
    }

    /// `scenario` with this on top of systemd in the place of the guest's usual job.
    pub fn boot(self, scenario: Scenario) -> Result<Report> {
        let report = run(&self.scenario(scenario)?)?;
        println!("{}", report.console);
        Ok(report)
    }

    /// The same, to be booted by the caller.
    pub fn scenario(self, scenario: Scenario) -> Result<Scenario> {
        let fixture = workspace().join("qemu-fixtures/systemd");
        let scratch = Scratch::new()?;
        let base = scratch.path().join("systemd.tar");
        let made = Command::new(fixture.join("build")).arg(&base).status()?;
        ensure!(made.success(), "qemu-fixtures/systemd/build: {made}");

        let mut files = vec![
            ("systemd.tar".to_owned(), fs::read(&base)?),
            ("overlay.tar".to_owned(), self.0.into_inner()?),
        ];
        for script in ["agent", "inside", "mark", "observer"] {
            files.push((format!("job/{script}"), fs::read(fixture.join(script))?));
        }
        Ok(Scenario { job: Some(fs::read_to_string(fixture.join("job"))?), files, ..scenario })
    }
}

/// The files of a folder of `deploy/guest`, drop-ins included: the path in the folder, and the
/// whole path.
pub fn units(folder: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
    let root = workspace().join("deploy/guest").join(folder);
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                found.push((entry.path().strip_prefix(&root)?.to_owned(), entry.path()));
            }
        }
    }
    found.sort();
    Ok(found)
}
