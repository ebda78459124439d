//! Whether a sandbox still exists, and what it left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::sandbox_id::SandboxId;

/// Where Kata keeps a directory for each sandbox, below `/run`, and nothing else but what
/// [`TEMPLATE`] names.
const DIRECTORIES: [&str; 4] = [
    // Kata in Go: the VM's sockets, the saved state, the agent's share.
    "vc/vm",
    "vc/sbs",
    "kata-containers/shared/sandboxes",
    // Kata in Rust.
    "kata",
];

/// Where Kata keeps directories of sandboxes among others.
const MIXED: &str = "kata-containers";

/// Where the Go runtime keeps a VM template, among the directories of sandboxes.
const TEMPLATE: &str = "template";

/// The inode of the first PID namespace (`PROC_PID_INIT_INO` in Linux' `include/linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The most directories that are looked at in one place, far more than a node can run sandboxes.
/// Free to change.
const MAX_DIRECTORIES: usize = 100_000;

/// The bundles of containerd, one directory per namespace.
const BUNDLES: &str = "containerd/io.containerd.runtime.v2.task";

/// The longest command line that is looked at; Linux allows a third of the stack's limit, which is
/// 8 MiB.
const MAX_COMMAND_LINE_BYTES: u64 = 8 << 20;

/// How often a program without a command line is looked at again; some have really erased theirs.
const MAX_LOOKS: u32 = 20;

/// What can be seen of a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Signs {
    /// It exists, or nobody can say that it does not.
    Life,
    /// Kata's directories of it, and neither a process nor a bundle.
    Remains(Vec<PathBuf>),
    /// Nothing.
    None,
}

/// What can be seen of living sandboxes at one moment.
#[derive(Debug)]
pub struct Living {
    /// Of containerd; one that a sandbox has is enough to be alive.
    bundles: Vec<PathBuf>,
    /// Of Kata. A dead sandbox can leave them.
    directories: Vec<PathBuf>,
    /// Whether every process of the node is seen.
    sees_all: bool,
    /// Every argument of every process.
    arguments: BTreeSet<Vec<u8>>,
}

impl Living {
    /// Looks at `/proc` and below `run_root`. What cannot be looked at is an error, because a
    /// sandbox that is not seen loses its image.
    ///
    /// Processes of other PID namespaces are not seen: in a container this needs the host's. In
    /// any namespace but the machine's first, directories of Kata therefore count as life.
    ///
    /// # Errors
    ///
    /// Those of reading `/proc` and the directory of containerd's bundles.
    pub fn look(run_root: &Path) -> io::Result<Self> {
        let mut bundles = Vec::new();
        match std::fs::read_dir(run_root.join(BUNDLES)) {
            Ok(namespaces) => {
                for namespace in namespaces {
                    bundles.push(namespace?.path());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let namespace = std::fs::read_link("/proc/self/ns/pid")?;
        let directories = DIRECTORIES.into_iter().chain([MIXED]);
        Ok(Self {
            bundles,
            directories: directories.map(|path| run_root.join(path)).collect(),
            sees_all: namespace == OsStr::new(FIRST_PID_NAMESPACE),
            arguments: arguments()?,
        })
    }

    /// What suggests that the sandbox exists. It does where containerd has its bundle, or a process
    /// its id anywhere in an argument (QEMU's `-name sandbox-ID`, the shim's `-id ID`, a path).
    #[must_use]
    pub fn signs(&self, sandbox: &SandboxId) -> Signs {
        let id = sandbox.as_str().as_bytes();
        let mentions = |argument: &Vec<u8>| argument.windows(id.len()).any(|part| part == id);
        // An error is no proof of absence either.
        let is_there = |path: &PathBuf| {
            std::fs::symlink_metadata(path)
                .map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true)
        };
        let below = |above: &PathBuf| Some(above.join(sandbox.as_str())).filter(is_there);
        if self.bundles.iter().any(|above| below(above).is_some())
            || self.arguments.iter().any(mentions)
        {
            return Signs::Life;
        }
        let remains: Vec<PathBuf> = self.directories.iter().filter_map(below).collect();
        match remains.is_empty() {
            true => Signs::None,
            false if self.sees_all => Signs::Remains(remains),
            false => Signs::Life,
        }
    }
}

/// The sandboxes that Kata has directories of below `run_root`, living or not.
///
/// # Errors
///
/// Those of reading the directories, and one for more than a node can have.
pub fn with_directories(run_root: &Path) -> io::Result<BTreeSet<SandboxId>> {
    let mut sandboxes = BTreeSet::new();
    for place in DIRECTORIES {
        let entries = match std::fs::read_dir(run_root.join(place)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for (count, entry) in entries.enumerate() {
            if count == MAX_DIRECTORIES {
                let rule = format!("{place} has more than {MAX_DIRECTORIES} entries");
                return Err(io::Error::other(rule));
            }
            let name = entry?.file_name();
            let name = name.to_str().filter(|name| *name != TEMPLATE);
            sandboxes.extend(name.and_then(|name| SandboxId::parse(name).ok()));
        }
    }
    Ok(sandboxes)
}

/// How long ago the newest of `paths` changed; `None` where that cannot be seen, or the clock was
/// set back since.
#[must_use]
pub fn age(paths: &[PathBuf]) -> Option<Duration> {
    let changed = |path: &PathBuf| std::fs::symlink_metadata(path)?.modified();
    let changed: io::Result<Vec<SystemTime>> = paths.iter().map(changed).collect();
    changed.ok()?.into_iter().max()?.elapsed().ok()
}

fn arguments() -> io::Result<BTreeSet<Vec<u8>>> {
    let mut arguments = BTreeSet::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
            continue;
        };
        let line = command_line(process)?;
        let parts = line.split(|byte| *byte == 0).filter(|part| !part.is_empty());
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
    fn directories_are_remains_and_a_bundle_is_life() {
        let run = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(run.path().join(path)).unwrap();
        let bundles = "containerd/io.containerd.runtime.v2.task";
        let places = [
            ("kata-containers/shared/sandboxes".into(), "test-living-a"),
            ("kata-containers".into(), "test-living-b"),
            ("vc/vm".into(), "test-living-c"),
            ("vc/sbs".into(), "test-living-d"),
            ("kata".into(), "test-living-e"),
            (format!("{bundles}/k8s.io"), "test-living-f"),
            (format!("{bundles}/moby"), "test-living-g"),
        ];
        for (place, name) in &places {
            make(&format!("{place}/{name}"));
        }
        make("vc/vm/template");
        // Its own image is no sign of life.
        make("kata-containers/shared/initdata/test-living-x");
        let mut living = Living::look(run.path()).unwrap();
        for sees_all in [true, false] {
            living.sees_all = sees_all;
            for (place, name) in &places {
                let path = run.path().join(place).join(name);
                let expected = match sees_all && !place.starts_with(bundles) {
                    true => Signs::Remains(vec![path]),
                    false => Signs::Life,
                };
                assert_eq!(living.signs(&id(name)), expected, "{place}");
            }
            assert_eq!(living.signs(&id("test-living-x")), Signs::None);
            assert_eq!(living.signs(&id("test-living")), Signs::None);
        }
        let listed: Vec<SandboxId> = with_directories(run.path()).unwrap().into_iter().collect();
        assert_eq!(listed, ["a", "c", "d", "e"].map(|end| id(&format!("test-living-{end}"))));
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
        assert_eq!(living.signs(&id(&name)), Signs::Life);
        assert_eq!(living.signs(&id(&format!("{name}-other"))), Signs::None);
        drop(process.stdin.take());
        process.wait().unwrap();
        let living = Living::look(run.path()).unwrap();
        assert_eq!(living.signs(&id(&name)), Signs::None);
    }
}
