//! A TPM in software (swtpm) and the firmware that measures into it (OVMF), for any guest.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::bound_command;
use crate::{Background, Scratch};

/// From Debian's package `ovmf`.
const FIRMWARE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
const VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// A running TPM 2.0, as it is after power-on; it ends with the VM that uses it.
#[derive(Debug)]
pub struct Vtpm {
    socket: PathBuf,
    variables: PathBuf,
    // Held: swtpm is killed with it.
    _process: Background,
}

impl Vtpm {
    /// Starts swtpm with new state in `scratch`, and copies the firmware's variables there.
    ///
    /// # Errors
    ///
    /// Where swtpm or OVMF is missing (`hack/packages test`), or swtpm does not start.
    pub fn start(scratch: &Scratch) -> Result<Self> {
        let state = scratch.path().join("tpm");
        fs::create_dir(&state)?;
        let socket = state.join("sock");
        let mut command = bound_command("swtpm");
        command
            .args(["socket", "--tpm2", "--flags", "startup-clear"])
            .arg("--tpmstate")
            .arg(format!("dir={}", state.display()))
            .arg("--ctrl")
            .arg(format!("type=unixio,path={}", socket.display()))
            .arg("--terminate");
        let mut process = Background::spawn("swtpm", command, scratch)?;
        let limit = Duration::from_secs(60);
        process.wait_for(limit, |_| socket.exists().then_some(()))?;
        let variables = fs::read(VARIABLES)
            .with_context(|| format!("failed to read {VARIABLES}: run hack/packages test"))?;
        Ok(Self { socket, variables: scratch.write("variables.fd", variables)?, _process: process })
    }

    /// What QEMU needs for both, in addition to the sandbox's own arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let flash = |unit: u8, file: &Path, more: &str| {
            let file = file.display();
            format!("if=pflash,format=raw,unit={unit},file={file}{more}")
        };
        [
            "-drive".to_owned(),
            flash(0, Path::new(FIRMWARE), ",readonly=on"),
            "-drive".to_owned(),
            flash(1, &self.variables, ""),
            "-chardev".to_owned(),
            format!("socket,id=chartpm,path={}", self.socket.display()),
            "-tpmdev".to_owned(),
            "emulator,id=tpm0,chardev=chartpm".to_owned(),
            "-device".to_owned(),
            "tpm-crb,tpmdev=tpm0".to_owned(),
        ]
        .map(OsString::from)
        .to_vec()
    }
}
