//! A VM that runs the guest's job once.

mod parts;

use std::fs;
use std::os::unix::net::UnixListener;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use command_fds::{CommandFdExt, FdMapping};
use serde_json::json;

use self::parts::{prepare, settings};
use crate::crash::{Crash, KERNEL_FAULT, despite_crash, is_crash};
use crate::fixture::Fixture;
use crate::process::{POLL, bound_command, read_lossy, tail};
use crate::vector::Vector;
use crate::{Background, Program, Qmp, Report, Scenario, Scratch, kata};

/// A guest takes a few seconds; only one that hangs takes so long, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(1200);

/// Boots a VM and waits for its end, a second time after a [`Crash`].
///
/// # Errors
///
/// As [`Guest::boot`] and [`Guest::finish`].
pub fn run(scenario: &Scenario) -> Result<Report> {
    despite_crash(|| Guest::boot(scenario)?.finish(|_| ()))
}

/// A VM started through the wrapper.
#[derive(Debug)]
pub struct Guest {
    process: Background,
    scratch: Scratch,
    started: Instant,
    says: Option<String>,
}

impl Guest {
    /// Starts a VM as Kata's Go runtime would, with `kata-configdev-qemu` in QEMU's place.
    ///
    /// # Errors
    ///
    /// Where a part is missing or the wrapper cannot be started. What the wrapper refuses shows in
    /// [`Guest::finish`].
    pub fn boot(scenario: &Scenario) -> Result<Self> {
        let scratch = Scratch::new()?;
        Self::boot_in(scenario, scratch)
    }

    /// As [`Guest::boot`], with all files in `scratch`.
    ///
    /// # Errors
    ///
    /// As [`Guest::boot`].
    pub fn boot_in(scenario: &Scenario, scratch: Scratch) -> Result<Self> {
        let sandbox = prepare(scenario, &scratch, Fixture::of(scenario.kernel)?)?;
        let vector = Vector::read(kata::DEFAULT_VECTOR)?;
        let bundle = scratch.path().join("bundle");
        fs::create_dir(&bundle)?;
        let annotations: serde_json::Map<_, _> =
            scenario.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let spec = json!({"ociVersion": "1.1.0", "annotations": annotations});
        fs::write(bundle.join("config.json"), spec.to_string())?;

        let mut command = match &scenario.wrapper {
            Some(wrapper) => bound_command(wrapper),
            None => {
                let mut command = bound_command(Program::KataConfigdevQemu.path()?);
                command.env("KATA_CONFIGDEV_CONFIG", settings(scenario, &scratch)?);
                command
            }
        };
        command
            .args(kata::arguments(&vector, &sandbox)?)
            .args(&scenario.arguments)
            .current_dir(&bundle);
        // Kata hands over the listening QMP socket as descriptor 3.
        let qmp = UnixListener::bind(scratch.path().join("qmp.sock"))?;
        command.fd_mappings(vec![FdMapping { parent_fd: qmp.into(), child_fd: 3 }])?;
        let started = Instant::now();
        let process = Background::spawn("qemu", command, &scratch)?;
        Ok(Self { process, scratch, started, says: scenario.says.clone() })
    }

    /// What the console showed so far.
    #[must_use]
    pub fn console(&self) -> String {
        read_lossy(&self.scratch.path().join("console.log"))
    }

    /// The directory with the VM's files.
    #[must_use]
    pub const fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Connects to QEMU's control socket.
    ///
    /// # Errors
    ///
    /// Where QEMU has gone or does not speak.
    pub fn qmp(&mut self) -> Result<Qmp> {
        let connected = Qmp::connect(&self.scratch.path().join("qmp.sock"));
        match self.process.ended()? {
            Some(status) if is_crash(status) => Err(Crash(status.to_string()).into()),
            _ => connected,
        }
    }

    /// The process number: the wrapper's, and after its exec QEMU's.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the VM to end, calling `progress` with the console's text whenever there is more.
    ///
    /// # Errors
    ///
    /// Where the VM does not start, hangs, or its job does not end.
    pub fn finish(mut self, mut progress: impl FnMut(&str)) -> Result<Report> {
        let mut seen = 0;
        let status = loop {
            let ended = self.process.ended()?;
            let console = self.console();
            if console.len() > seen {
                seen = console.len();
                progress(&console);
            }
            if let Some(status) = ended {
                break status;
            }
            ensure!(
                self.started.elapsed() < LIMIT,
                "the guest did not end in {} s: {}",
                LIMIT.as_secs(),
                tail(&console)
            );
            sleep(POLL);
        };
        let output = self.process.output();
        if is_crash(status) {
            return Err(Crash(status.to_string())).context(tail(&output));
        }
        ensure!(status.success(), "the VM ended with {status}: {}", tail(&output));
        let report = Report::parse(self.console(), self.started.elapsed());
        if !report.is_complete() && report.console.contains(KERNEL_FAULT) {
            return Err(Crash(tail(&report.console).to_string()).into());
        }
        ensure!(
            report.is_complete(),
            "the guest did not finish its job: {}\n{}",
            tail(&report.console),
            tail(&output)
        );
        let is_expected = match &self.says {
            None => output.is_empty(),
            Some(says) => output.lines().count() == 1 && output.contains(says),
        };
        ensure!(
            is_expected,
            "the wrapper or QEMU wrote to stderr: {:?}, expected: {:?}",
            tail(&output),
            self.says
        );
        Ok(report)
    }
}
