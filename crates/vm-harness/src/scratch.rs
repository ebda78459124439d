//! A directory and the processes that live no longer than it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// A temporary directory (0700) together with the processes started in it.
///
/// When the last clone goes, or at [`Scratch::clear`], the processes are killed and the directory
/// is removed. Clones share both, so that a signal handler can clear what a worker is still using;
/// the worker then fails at its next step.
#[derive(Clone, Debug)]
pub struct Scratch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeSet<u32>,
    cleared: bool,
}

impl Scratch {
    /// Makes a new directory below the system's temporary directory.
    ///
    /// # Errors
    ///
    /// Where the directory cannot be made.
    pub fn new() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("kata-configdev-")
            .tempdir()
            .context("failed to make a temporary directory")?
            .keep();
        Ok(Self(Arc::new(Inner { directory, state: Mutex::default() })))
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.directory
    }

    /// Writes `content` to the file `name` (0600) in the directory and returns its path.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path().join(name);
        File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(content.as_ref()))
            .with_context(|| format!("failed to write {}", path.display()))?;
        Ok(path)
    }

    /// Starts `command` and remembers it for [`Scratch::clear`].
    ///
    /// # Errors
    ///
    /// Where it cannot be started, or the directory was cleared.
    pub(crate) fn spawn(&self, command: &mut Command) -> Result<Child> {
        let mut state = self.0.state();
        if state.cleared {
            bail!("interrupted");
        }
        let child = command.spawn().with_context(|| {
            format!("failed to start {}", command.get_program().to_string_lossy())
        })?;
        state.running.insert(child.id());
        Ok(child)
    }

    /// Looks whether `child` has ended, and forgets it then.
    ///
    /// Both under the lock that [`Scratch::clear`] takes: once a process is waited for, its number
    /// may be anybody's.
    pub(crate) fn reap(&self, child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
        let mut state = self.0.state();
        let status = child.try_wait()?;
        if status.is_some() {
            state.running.remove(&child.id());
        }
        Ok(status)
    }

    /// Kills the processes and removes the directory, now.
    pub fn clear(&self) {
        self.0.clear();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self) {
        let mut state = self.state();
        state.cleared = true;
        for process in std::mem::take(&mut state.running) {
            let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // Gone already is as good.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        // A dying process may still add a file while the tree is being removed.
        for _ in 0..50 {
            match fs::remove_dir_all(&self.directory) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                _ => return,
            }
        }
        eprintln!("could not remove {}", self.directory.display());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clearing_kills_and_removes_and_forbids_more() {
        let scratch = Scratch::new().unwrap();
        scratch.write("file", "content").unwrap();
        let mut child = scratch.spawn(Command::new("sleep").arg("600")).unwrap();
        let path = scratch.path().to_owned();
        scratch.clone().clear();
        assert!(!child.wait().unwrap().success());
        assert!(!path.exists());
        assert!(scratch.spawn(&mut Command::new("true")).is_err());
    }
}
