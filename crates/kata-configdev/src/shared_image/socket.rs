//! The socket beside where the file would be, for the transport `vhost-user`: through it the
//! serving process gets new content.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::umask;

use super::{SharedImageError, directory, failed, make_sandbox, open_sandbox, remove_if_empty};
use crate::host_file::FileFault;
use crate::sandbox_id::SandboxId;

/// The socket's name in its sandbox's directory.
pub const NAME: &str = "imagepuller.sock";

/// Where the socket of a sandbox is.
#[must_use]
pub fn path(run_root: &Path, sandbox: &SandboxId) -> PathBuf {
    directory(run_root, sandbox).join(NAME)
}

/// Listens at the socket of the sandbox, mode 0600, in directories as the file's. What a process
/// left behind that is gone is replaced.
///
/// # Errors
///
/// [`SharedImageError`], also where a process listens there already.
pub fn listen(run_root: &Path, sandbox: &SandboxId) -> Result<UnixListener, SharedImageError> {
    let path = path(run_root, sandbox);
    let directory = make_sandbox(run_root, sandbox)?;
    if connect_in(&directory, &path)?.is_some() {
        return Err(failed(&path, FileFault::Served));
    }
    match unlinkat(&directory, NAME, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(&path, errno)),
    }
    bind_private(&below(&directory)).map_err(|error| failed(&path, error))
}

/// Connects to the process that serves the sandbox's disk; `None` where there is none.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn connect(
    run_root: &Path,
    sandbox: &SandboxId,
) -> Result<Option<UnixStream>, SharedImageError> {
    match open_sandbox(run_root, sandbox)? {
        Some((directory, _)) => connect_in(&directory, &path(run_root, sandbox)),
        None => Ok(None),
    }
}

/// Removes the socket and the record, and the directory if it is empty then. A failure is not told:
/// that of the caller is the one to report, and `sweep` tries again.
pub fn discard(run_root: &Path, sandbox: &SandboxId) {
    if let Ok(Some((directory, parents))) = open_sandbox(run_root, sandbox) {
        let _ = unlinkat(&directory, NAME, AtFlags::empty());
        let _ = unlinkat(&directory, super::record::NAME, AtFlags::empty());
        let _ = remove_if_empty(&parents, sandbox);
    }
}

fn connect_in(directory: &OwnedFd, path: &Path) -> Result<Option<UnixStream>, SharedImageError> {
    match statat(directory, NAME, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Socket => {}
        Ok(_) => return Err(failed(path, FileFault::NotSocket)),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(path, errno)),
    }
    match UnixStream::connect(below(directory)) {
        Ok(stream) => Ok(Some(stream)),
        // Its process is gone.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, error)),
    }
}

/// The socket's path through the open directory: the whole one can be longer than the 107 bytes of
/// a socket's address, and can mean something else a moment later.
fn below(directory: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()).into()
}

/// Listens at `path`, where only the owner can connect. For a process that has one thread.
///
/// # Errors
///
/// Those of `bind(2)` and `listen(2)`.
pub fn bind_private(path: &Path) -> io::Result<UnixListener> {
    // A change of mode after the fact would leave a moment for others.
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}
