//! Regular files of the host, opened without hanging and read up to a limit.

mod fault;

use std::fs::{File, Metadata};
use std::path::Path;

use foreign_text::bounded::{read_file, read_stream};
use linux_sys::rooted::Root;
use node_installer::administered;
use rustix::fs::{Mode, OFlags, open};
use zeroize::Zeroizing;

pub use self::fault::{FileError, FileFault, MORE_FILES, is_out_of_files};

/// A regular file held open, not yet read.
#[derive(Debug)]
pub struct HostFile {
    file: File,
    metadata: Metadata,
}

impl HostFile {
    /// Opens `path`, which the caller trusts; symbolic links are followed.
    ///
    /// # Errors
    ///
    /// [`FileFault::NotRegular`], [`FileFault::Io`].
    pub fn open(path: &Path) -> Result<Self, FileFault> {
        let flags = Self::FLAGS | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = open(path, flags, Mode::empty())?;
        Self::regular(file.into())
    }

    /// Opens `path`, which is untrusted, below `root`: no link on the way, no way out.
    ///
    /// # Errors
    ///
    /// [`FileFault::NotRegular`], [`FileFault::Io`].
    pub fn open_beneath(root: &Root, path: &Path) -> Result<Self, FileFault> {
        Self::regular(root.open_file(path, Self::FLAGS)?)
    }

    /// A FIFO without a writer must not hang the caller; on regular files `O_NONBLOCK` has no
    /// effect.
    pub(crate) const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

    /// Looks at what was opened, not at its path: the two can differ a moment later.
    pub(crate) fn regular(file: File) -> Result<Self, FileFault> {
        let metadata = file.metadata()?;
        if metadata.is_file() { Ok(Self { file, metadata }) } else { Err(FileFault::NotRegular) }
    }

    /// Requires that only the administrator can have written the file.
    ///
    /// # Errors
    ///
    /// [`FileFault::NotAdministered`].
    pub fn require_administered(self) -> Result<Self, FileFault> {
        require_administered(&self.metadata)?;
        Ok(self)
    }

    /// What it is.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Reads all of the file, which may have at most `limit` bytes; the copy is zeroed when
    /// dropped.
    ///
    /// # Errors
    ///
    /// [`FileFault::TooLong`], [`FileFault::Io`].
    pub fn read(self, limit: usize) -> Result<Zeroizing<Vec<u8>>, FileFault> {
        Ok(read_file(self.file, limit)?)
    }
}

/// The rule of [`HostFile::require_administered`], for a file or directory that is already open.
///
/// # Errors
///
/// [`FileFault::NotAdministered`].
pub fn require_administered(metadata: &Metadata) -> Result<(), FileFault> {
    Ok(administered::require_administered(metadata)?)
}

/// Reads what a person at a terminal named: a file of any kind, because a pipe keeps secrets off
/// the disk, or standard input for "-".
///
/// # Errors
///
/// [`FileError`].
pub fn read_named(path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, FileError> {
    if path == Path::new("-") {
        let read = read_stream(std::io::stdin().lock(), limit);
        return read.map_err(|error| FileFault::from(error).at(path));
    }
    read_any(path, limit).map(|(content, _)| content)
}

/// Reads a file of any kind, and looks at what was read.
///
/// # Errors
///
/// [`FileError`].
pub fn read_any(path: &Path, limit: usize) -> Result<(Zeroizing<Vec<u8>>, Metadata), FileError> {
    let read = || -> Result<_, FileFault> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let content =
            if metadata.is_file() { read_file(file, limit) } else { read_stream(file, limit) };
        Ok((content?, metadata))
    };
    read().map_err(|fault| fault.at(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    fn fault(path: &Path) -> String {
        HostFile::open(path)
            .and_then(HostFile::require_administered)
            .and_then(|file| file.read(10))
            .map(|_| ())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn only_what_the_administrator_wrote_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        let set_mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode));
        for mode in [0o600, 0o400, 0o644, 0o755] {
            set_mode(mode).unwrap();
            let file = HostFile::open(&path).unwrap().require_administered().unwrap();
            assert_eq!(file.read(10).unwrap().as_slice(), b"0123456789");
        }
        for mode in [0o620, 0o602, 0o666] {
            set_mode(mode).unwrap();
            assert_eq!(
                fault(&path),
                format!("its mode {mode:04o} lets others than its owner write to it")
            );
        }
        set_mode(0o600).unwrap();
        std::fs::write(&path, "0123456789a").unwrap();
        assert_eq!(fault(&path), "it has more than 10 bytes");
        assert!(fault(&dir.path().join("absent")).contains("No such file"));
    }

    /// The remedy was the node's memory.
    #[test]
    fn too_many_open_files_are_no_lack_of_memory() {
        for errno in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE] {
            assert_eq!(FileFault::from(errno).remedy(), MORE_FILES);
            let memory = crate::SandboxError::Memory(errno.into());
            assert_eq!(memory.remedy(), MORE_FILES);
        }
        let memory = crate::SandboxError::Memory(rustix::io::Errno::NOMEM.into());
        assert!(memory.remedy().contains("free memory"));
    }

    #[test]
    fn privileged_a_file_of_somebody_else_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        if chown(file.path(), Some(65534), None).is_err() {
            test_command::skip("giving a file away needs root");
            return;
        }
        assert_eq!(fault(file.path()), "its owner is uid 65534, not root");
    }

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let link = dir.path().join("link");
        symlink(&fifo, &link).unwrap();
        // A FIFO without a writer would block an open for ever.
        for path in [&fifo, &link, dir.path(), Path::new("/dev/zero")] {
            assert_eq!(fault(path), "it is not a regular file", "{}", path.display());
        }
    }
}
