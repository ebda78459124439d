//! What a builder has: a directory with an agent, and the scripts of `deploy/guest`.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use vm_harness::fixture::modules_folder;
use vm_harness::{Kernel, Program, Scenario, Scratch};

/// What the stand-in for Kata's agent does first: in a real guest the host tells the agent how the
/// network is to be, and the agent makes it so.
const NETWORK: &str = "#!/bin/busybox sh
PATH=/job/bin:/usr/sbin:/usr/bin:/sbin:/bin
modprobe virtio_net
until [ -e /sys/class/net/eth0 ]; do usleep 10000; done
ifconfig lo up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
mkdir -p /tmp
";

/// The checkout.
pub fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// A file of `deploy/guest`.
pub fn deploy(name: &str) -> PathBuf {
    workspace().join("deploy/guest").join(name)
}

/// The folder with this project's programs.
pub fn programs() -> Result<PathBuf> {
    let program = Program::InitdataProcessor.path()?;
    ensure!(
        Program::Imagepuller.path()?.is_file() && vm_harness::program("configdev-smoke")?.is_file()
    );
    Ok(program.parent().context("a folder")?.to_owned())
}

/// A directory that becomes part of an image.
#[derive(Debug)]
pub struct Stage(pub PathBuf);

impl Stage {
    /// An agent, what it finds in `scenario`, and busybox's names in `names`.
    pub fn new(scratch: &Scratch, scenario: &Scenario, names: &str) -> Result<Self> {
        let stage = Self(scratch.path().join("stage"));
        let folder = stage.0.join(names);
        fs::create_dir_all(&folder)?;
        let names = Command::new("/bin/busybox").arg("--list").output()?.stdout;
        let names = String::from_utf8(names)?;
        for name in names.lines().filter(|name| *name != "busybox") {
            symlink("/bin/busybox", folder.join(name))?;
        }
        let fixture =
            |name: &str| fs::read_to_string(workspace().join("qemu-fixtures/systemd").join(name));
        let agent = format!("{NETWORK}{}", fixture("agent")?);
        stage.file("usr/bin/kata-agent", 0o755, agent.as_bytes())?;
        stage.file("job/mark", 0o644, fixture("mark")?.as_bytes())?;
        stage.file("job/parameters", 0o644, scenario.parameters().as_bytes())?;
        stage.file("etc/hosts", 0o644, scenario.hosts.as_bytes())?;
        stage.file("usr/bin/busybox", 0o755, &fs::read("/bin/busybox")?)?;
        Ok(stage)
    }

    /// The units around the agent that Kata's images have, and a file in the agent's place, which
    /// `configdev-smoke` takes.
    pub fn with_units(scratch: &Scratch) -> Result<Self> {
        let stage = Self(scratch.path().join("stage"));
        // The word by which configdev-smoke knows that an agent reads a policy.
        let agent = b"#!/bin/sh\n# KATA_AGENT_POLICY_FILE\n";
        stage.file("usr/bin/kata-agent", 0o755, agent)?;
        let fixture = workspace().join("qemu-fixtures/systemd/units");
        for name in ["kata-agent.service", "kata-containers.target"] {
            let unit = fs::read_to_string(fixture.join(name))?
                .replace("/bin/sh /job/agent", "/usr/bin/kata-agent")
                .replace("Wants=observer.service\n", "");
            let path = format!("usr/lib/systemd/system/{name}");
            stage.file(&path, 0o644, unit.as_bytes())?;
        }
        let temporary = fs::read("/usr/share/systemd/tmp.mount")?;
        stage.file("usr/lib/systemd/system/tmp.mount", 0o644, &temporary)?;
        Ok(stage)
    }

    /// A file of this mode.
    pub fn file(&self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(&path, content)?;
        Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
    }
}

/// Runs a program; its exit code, and what it said.
pub fn run<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> Result<(Option<i32>, String)> {
    let program = program.as_ref();
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to run {}", program.display()))?;
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((output.status.code(), text))
}

/// Runs a program that has to succeed.
pub fn succeed<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String> {
    let name = program.as_ref().display().to_string();
    let (code, text) = run(program, arguments)?;
    ensure!(code == Some(0), "{name} ended with {code:?}: {text}");
    Ok(text)
}

/// `add-to-initrd` with this project's programs and the drivers of the test's kernel. The words of
/// `what` say what else.
pub fn add_to_initrd(what: &[&str], initrd: &Path, output: &Path) -> Result<(Option<i32>, String)> {
    let (programs, modules) = (programs()?, modules_folder(Kernel::default())?);
    let mut arguments = vec!["--programs".as_ref(), programs.as_os_str()];
    arguments.extend(["--modules".as_ref(), modules.as_os_str()]);
    arguments.extend(["--driver", "virtio_net"].map(OsStr::new));
    arguments.extend(what.iter().map(OsStr::new));
    arguments.extend([initrd.as_os_str(), output.as_os_str()]);
    arguments.extend(["--append", "agent.guest_components_procs=none"].map(OsStr::new));
    run(deploy("add-to-initrd"), arguments)
}
