//! Whether a sandbox still exists.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sandbox_id::SandboxId;

/// Where runtimes and engines keep a directory for each sandbox, below `/run`. One of them is
/// enough to be alive; that a dead sandbox leaves one behind only means that its image stays.
const DIRECTORIES: [&str; 5] = [
    // Kata in Go: the agent's share, the VM's sockets, the saved state.
    "kata-containers/shared/sandboxes",
    "vc/vm",
    "vc/sbs",
    // Kata in Rust.
    "kata",
    "kata-containers",
];

/// The bundles of containerd, one directory per namespace.
const BUNDLES: &str = "containerd/io.containerd.runtime.v2.task";

/// The longest command line that is looked at; Linux allows a third of the stack's limit, which is
/// 8 MiB.
const MAX_COMMAND_LINE_BYTES: u64 = 8 << 20;

/// How often a program without a command line is looked at again; some have really erased theirs.
const MAX_LOOKS: u32 = 20;

/// What can be seen of living sandboxes at one moment.
#[derive(Debug)]
pub struct Living {
    directories: Vec<PathBuf>,
    /// Every argument of every process.
    arguments: BTreeSet<Vec<u8>>,
}

impl Living {
    /// Looks at `/proc` and below `run_root`. What cannot be looked at is an error, because a
    /// sandbox that is not seen loses its image.
    ///
    /// Processes of other PID namespaces are not seen: in a container this needs the host's.
    ///
    /// # Errors
    ///
    /// Those of reading `/proc` and the directory of containerd's bundles.
    pub fn look(run_root: &Path) -> io::Result<Self> {
        let mut directories: Vec<PathBuf> = DIRECTORIES.map(|path| run_root.join(path)).into();
        match std::fs::read_dir(run_root.join(BUNDLES)) {
            Ok(namespaces) => {
                for namespace in namespaces {
                    directories.push(namespace?.path());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self {
            directories,
            arguments: arguments()?,
        })
    }

    /// Whether anything suggests that the sandbox exists: a directory of its name, or a process
    /// with its id anywhere in an argument (QEMU's `-name sandbox-ID`, the shim's `-id ID`, a
    /// path).
    #[must_use]
    pub fn has(&self, sandbox: &SandboxId) -> bool {
        let id = sandbox.as_str().as_bytes();
        let mentions = |argument: &Vec<u8>| argument.windows(id.len()).any(|part| part == id);
        // An error is no proof of absence either.
        let is_there = |directory: &PathBuf| {
            std::fs::symlink_metadata(directory.join(sandbox.as_str()))
                .map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true)
        };
        self.directories.iter().any(is_there) || self.arguments.iter().any(mentions)
    }
}

fn arguments() -> io::Result<BTreeSet<Vec<u8>>> {
    let mut arguments = BTreeSet::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
            continue;
        };
        let line = command_line(process)?;
        let parts = line
            .split(|byte| *byte == 0)
            .filter(|part| !part.is_empty());
        arguments.extend(parts.map(Into::into));
    }
    Ok(arguments)
}

/// The command line of a process; empty where it ended, and of the kernel's own.
///
/// For a moment of each `exec` the command line is empty, too, and the wrapper becoming QEMU is
/// just such a moment. So a program without one is looked at again.
fn command_line(process: &str) -> io::Result<Vec<u8>> {
    let mut line = read_command_line(process)?;
    for _ in 0..MAX_LOOKS {
        let is_program = std::fs::read_link(format!("/proc/{process}/exe")).is_ok();
        if !line.is_empty() || !is_program {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        line = read_command_line(process)?;
    }
    Ok(line)
}

fn read_command_line(process: &str) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let read = File::open(format!("/proc/{process}/cmdline"))
        .and_then(|file| file.take(MAX_COMMAND_LINE_BYTES).read_to_end(&mut line));
    match read {
        Ok(_) => Ok(line),
        // It ended meanwhile.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn id(text: &str) -> SandboxId {
        SandboxId::parse(text).unwrap()
    }

    #[test]
    fn a_directory_of_its_name_is_life() {
        let run = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(run.path().join(path)).unwrap();
        let places = [
            ("kata-containers/shared/sandboxes", "test-living-a"),
            ("kata-containers", "test-living-b"),
            ("vc/vm", "test-living-c"),
            ("vc/sbs", "test-living-d"),
            ("kata", "test-living-e"),
            (
                "containerd/io.containerd.runtime.v2.task/k8s.io",
                "test-living-f",
            ),
            (
                "containerd/io.containerd.runtime.v2.task/moby",
                "test-living-g",
            ),
        ];
        for (place, name) in places {
            make(&format!("{place}/{name}"));
        }
        // Its own image is no sign of life.
        make("kata-containers/shared/initdata/test-living-x");
        let living = Living::look(run.path()).unwrap();
        for (place, name) in places {
            assert!(living.has(&id(name)), "{place}");
        }
        assert!(!living.has(&id("test-living-x")));
        assert!(!living.has(&id("test-living")));
    }

    #[test]
    fn a_process_that_mentions_it_is_life() {
        let run = tempfile::tempdir().unwrap();
        let name = format!("test-process-{}", std::process::id());
        // Reads from a pipe until this test closes it.
        let mut process = Command::new("sh")
            .args(["-c", "read line", "sh", "-name"])
            .arg(format!("sandbox-{name},debug-threads=on"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let living = Living::look(run.path()).unwrap();
        assert!(living.has(&id(&name)));
        assert!(!living.has(&id(&format!("{name}-other"))));
        drop(process.stdin.take());
        process.wait().unwrap();
        assert!(!Living::look(run.path()).unwrap().has(&id(&name)));
    }
}
