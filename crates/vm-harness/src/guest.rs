//! A VM that runs the guest's job once.

use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use command_fds::{CommandFdExt, FdMapping};
use serde_json::json;
use sha2::{Digest, Sha256, Sha384};

use crate::fixture::{Fixture, Kernel, source};
use crate::initramfs::Initramfs;
use crate::layout::hex;
use crate::process::{POLL, bound_command, read_lossy, tail};
use crate::vector::Vector;
use crate::{Background, Network, Program, Qmp, Report, Scratch, kata, node};

/// A guest takes a few seconds; only one that hangs takes so long, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(1200);

/// The signals that end a VM here: of the harness itself, of a person, of a service manager.
const OURS: [i32; 3] = [2, 9, 15];

/// What a sandbox is started with.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The sandbox's id.
    pub id: String,
    /// The guest's kernel.
    pub kernel: Kernel,
    /// The image to ask for.
    pub image: String,
    /// The node's default document; none: the wrapper attaches no disk.
    pub document: Option<String>,
    /// The initdata document; none: no initdata disk.
    pub initdata: Option<String>,
    /// What the guest's TEE says about it.
    pub evidence: Evidence,
    /// More kernel parameters.
    pub kernel_parameters: Vec<String>,
    /// Contents of further read-only disks.
    pub disks: Vec<Vec<u8>>,
    /// Further lines of the wrapper's settings.
    pub settings: String,
    /// Directories from which a pod may choose a document.
    pub annotation_allow: Vec<PathBuf>,
    /// Annotations of the pod.
    pub annotations: Vec<(String, String)>,
    /// What the guest can reach.
    pub network: Network,
    /// Further lines of the guest's `/etc/hosts`.
    pub hosts: String,
    /// A shell script in the place of `qemu-fixtures/guest/job`.
    pub job: Option<String>,
    /// An initrd that was made elsewhere. It has all that the guest needs; `job`, `files`,
    /// `programs`, `tools`, `modules` and `hosts` are for those that are made here.
    pub initrd: Option<PathBuf>,
    /// Further files of the guest: path without the leading slash, content.
    pub files: Vec<(String, Vec<u8>)>,
    /// Further programs in the guest's `/bin`.
    pub programs: Vec<Program>,
    /// Programs of this machine, put into the guest's `/bin` with their libraries.
    pub tools: Vec<&'static str>,
    /// Further kernel modules, which the guest loads first: a list in `qemu-fixtures/guest`.
    pub modules: Option<&'static str>,
    /// Further arguments of QEMU.
    pub arguments: Vec<OsString>,
    /// The hypervisor behind the wrapper.
    pub qemu: PathBuf,
    /// A wrapper that somebody installed, with settings of its own: `qemu`, `document`, `settings`
    /// and `annotation_allow` are for the one that was built.
    pub wrapper: Option<PathBuf>,
    /// A part of the one line on standard error, where the wrapper refuses and the VM runs.
    pub says: Option<String>,
}

impl Scenario {
    /// A guest that runs only `job`: no disks of ours, no TEE, nothing to pull.
    #[must_use]
    pub fn bare(job: impl Into<String>) -> Self {
        Self {
            id: "5d1c7e90ab".to_owned(),
            kernel: Kernel::default(),
            image: String::new(),
            document: None,
            initdata: None,
            evidence: Evidence::None,
            kernel_parameters: Vec::new(),
            disks: Vec::new(),
            settings: String::new(),
            annotation_allow: Vec::new(),
            annotations: Vec::new(),
            network: Network::Open,
            hosts: String::new(),
            job: Some(job.into()),
            initrd: None,
            files: Vec::new(),
            programs: Vec::new(),
            tools: Vec::new(),
            modules: None,
            arguments: Vec::new(),
            qemu: "/usr/bin/qemu-system-x86_64".into(),
            wrapper: None,
            says: None,
        }
    }
}

impl Scenario {
    /// What the guest's scripts find in `job/parameters`.
    #[must_use]
    pub fn parameters(&self) -> String {
        let (image, id) = (&self.image, &self.id);
        let tee = self.evidence.module_arguments();
        format!("IMAGE='{image}'\nBUNDLE='/run/kata-containers/{id}'\nTEE='{tee}'\n")
    }
}

/// What the guest's TEE reports as the initdata digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// There is no TEE.
    None,
    /// AMD SEV-SNP with this HOSTDATA.
    Snp([u8; 32]),
    /// Intel TDX with this MRCONFIGID.
    Tdx([u8; 48]),
}

impl Evidence {
    /// SNP evidence for a document that names `sha256` as its algorithm.
    #[must_use]
    pub fn snp(initdata: &str) -> Self {
        Self::Snp(Sha256::digest(initdata).into())
    }

    /// TDX evidence for a document that names `sha384` as its algorithm.
    #[must_use]
    pub fn tdx(initdata: &str) -> Self {
        Self::Tdx(Sha384::digest(initdata).into())
    }

    /// The arguments of the fixture's kernel module, in the job's `TEE`.
    fn module_arguments(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Snp(data) => format!("platform=snp hostdata={}", hex(data)),
            Self::Tdx(data) => format!("platform=tdx hostdata={}", hex(data)),
        }
    }
}

/// A VM ended by a signal that nobody here sent, or its kernel by a fault of its own, as happens
/// under QEMU's emulation of several processors: no fault of what is tested.
#[derive(Debug)]
pub struct Crash(String);

/// What the guest's kernel says last where it failed itself, and not its init.
const KERNEL_FAULT: &str = "Kernel panic - not syncing: Fatal exception";

impl std::fmt::Display for Crash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the VM itself ended with {}", self.0)
    }
}

impl std::error::Error for Crash {}

/// Runs `attempt`, and runs it once more where its VM ended by a [`Crash`]. Both ends are printed.
///
/// # Errors
///
/// Those of the last attempt.
pub fn despite_crash<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let first = match attempt() {
        Err(error) if error.chain().any(|cause| cause.is::<Crash>()) => error,
        other => return other,
    };
    println!("first attempt: {first:#}");
    let second = attempt().with_context(|| format!("first attempt: {first:#}; second attempt"));
    println!(
        "second attempt: {}",
        if second.is_ok() {
            "it ran to its end"
        } else {
            "it failed"
        }
    );
    second
}

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
        let sandbox = match scenario.modules {
            None => prepare(scenario, &scratch, Fixture::of(scenario.kernel)?)?,
            Some(list) => {
                let more = fs::read_to_string(source("guest").join(list))?;
                prepare(
                    scenario,
                    &scratch,
                    &Fixture::with_modules(scenario.kernel, &more)?,
                )?
            }
        };
        let vector = Vector::read(kata::DEFAULT_VECTOR)?;
        let bundle = scratch.path().join("bundle");
        fs::create_dir(&bundle)?;
        let annotations: serde_json::Map<_, _> = scenario
            .annotations
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
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
        command.fd_mappings(vec![FdMapping {
            parent_fd: qmp.into(),
            child_fd: 3,
        }])?;
        let started = Instant::now();
        let process = Background::spawn("qemu", command, &scratch)?;
        Ok(Self {
            process,
            scratch,
            started,
            says: scenario.says.clone(),
        })
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
        ensure!(
            status.success(),
            "the VM ended with {status}: {}",
            tail(&output)
        );
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

/// Writes the settings of the wrapper that was built, and the document that they name.
fn settings(scenario: &Scenario, scratch: &Scratch) -> Result<PathBuf> {
    let mut settings = format!("qemu = {:?}\n", scenario.qemu);
    if let Some(document) = &scenario.document {
        let path = scratch.write("imagepuller.toml", document)?;
        settings.push_str(&format!("document = \"{}\"\n", path.display()));
    }
    settings.push_str(&format!(
        "annotation-allow = {:?}\n",
        scenario.annotation_allow
    ));
    settings.push_str(&scenario.settings);
    scratch.write("config.toml", settings)
}

fn is_crash(status: ExitStatus) -> bool {
    status
        .signal()
        .is_some_and(|signal| !OURS.contains(&signal))
}

/// The first file system of a guest with a job.
fn initramfs(scenario: &Scenario, scratch: &Scratch, fixture: &Fixture) -> Result<Vec<u8>> {
    let mut initramfs = Initramfs::base(fixture)?;
    initramfs.file("job/parameters", scenario.parameters().as_bytes())?;
    match &scenario.job {
        Some(job) => initramfs.file("job/run", job.as_bytes())?,
        None => initramfs.file("job/run", &fs::read(source("guest/job"))?)?,
    }
    for (name, content) in &scenario.files {
        initramfs.file(name, content)?;
    }
    for program in &scenario.programs {
        initramfs.program(*program)?;
    }
    for tool in &scenario.tools {
        let from = Path::new("/usr/sbin").join(tool);
        initramfs.executable(&format!("bin/{tool}"), &from)?;
        for library in node::libraries(scratch, &[&from])? {
            let name = library.strip_prefix("/").unwrap_or(&library);
            initramfs.executable(&name.to_string_lossy(), &library)?;
        }
    }
    let hosts = format!("127.0.0.1 localhost\n{}", scenario.hosts);
    initramfs.file("etc/hosts", hosts.as_bytes())?;
    initramfs.finish()
}

fn prepare(scenario: &Scenario, scratch: &Scratch, fixture: &Fixture) -> Result<kata::Sandbox> {
    let initrd = match &scenario.initrd {
        Some(initrd) => initrd.clone(),
        None => scratch.write("initrd.cpio", initramfs(scenario, scratch, fixture)?)?,
    };
    let initdata = match &scenario.initdata {
        Some(document) => {
            let image = config_image::encode(config_image::Magic::INITDATA, document.as_bytes())?;
            Some(scratch.write("data.img", image)?)
        }
        None => None,
    };
    let disks = scenario
        .disks
        .iter()
        .enumerate()
        .map(|(number, content)| scratch.write(&format!("disk{number}.img"), content))
        .collect::<Result<_>>()
        .context("failed to write a disk")?;
    Ok(kata::Sandbox {
        id: scenario.id.clone(),
        kernel: fixture.kernel.clone(),
        cpu: scenario.kernel.cpu().to_owned(),
        memory_mib: 512,
        initrd,
        root_image: scratch.write("root.img", vec![0; 1 << 20])?,
        initdata,
        disks,
        network: scenario.network.back_end(),
        kernel_parameters: scenario.kernel_parameters.clone(),
        run: scratch.path().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU 7.2 once ended with SIGSEGV under a test that had nothing to do with it.
    #[test]
    fn only_a_crash_is_tried_again() {
        let crash = || Err(Crash("SIGSEGV".into()).into());
        for (ends, expected) in [
            (vec![Ok(1)], Ok(1)),
            (vec![crash(), Ok(2)], Ok(2)),
            (vec![Err(anyhow::anyhow!("refused"))], Err("refused")),
            (vec![crash(), crash()], Err("SIGSEGV")),
            (
                vec![crash(), Err(anyhow::anyhow!("refused"))],
                Err("refused"),
            ),
        ] {
            let mut ends = ends.into_iter();
            let end = despite_crash(|| ends.next().unwrap());
            match (end, expected) {
                (Ok(end), Ok(expected)) => assert_eq!(end, expected),
                (Err(error), Err(words)) => assert!(format!("{error:#}").contains(words)),
                (end, expected) => panic!("{end:?}, not {expected:?}"),
            }
            assert!(ends.next().is_none());
        }
    }

    #[test]
    fn signals_of_ours_are_no_crash() {
        for (signal, expected) in [(11, true), (6, true), (9, false), (15, false), (2, false)] {
            assert_eq!(is_crash(ExitStatus::from_raw(signal)), expected, "{signal}");
        }
        assert!(!is_crash(ExitStatus::from_raw(1 << 8)));
    }
}
