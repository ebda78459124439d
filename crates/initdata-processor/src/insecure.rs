//! `/run/insecure-cfg`: the image puller's configuration, or the reason why there is none.
//!
//! Three states: a configuration file; an error file; neither, which means "no configuration". The image puller looks for
//! the error file first, so each change below passes through a state that refuses rather than one that forgets.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, open, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::{Error, printable};

/// The directory's name below `/run`.
pub const DIRECTORY: &str = "insecure-cfg";

/// The configuration, 0600.
pub const FILE: &str = "imagepuller.toml";

/// One line that says why the configuration was refused, 0600. Stands beside [`FILE`], with another extension.
pub const ERROR_FILE: &str = "imagepuller.error";

/// The longest line in the error file; a reason is a sentence. Longer ones are cut.
pub const MAX_ERROR_BYTES: usize = 1024;

/// Puts `document` at [`FILE`].
///
/// # Errors
///
/// [`Error::Write`].
pub fn store(run: &Path, document: &[u8]) -> Result<(), Error> {
    let directory = Directory::open(run)?;
    directory.write(FILE, document)?;
    directory.remove(ERROR_FILE)
}

/// Puts `reason` at [`ERROR_FILE`] and removes the configuration.
///
/// # Errors
///
/// [`Error::Write`]. The caller must not report success then: without the file the puller would go on unconfigured.
pub fn refuse(run: &Path, reason: &str) -> Result<(), Error> {
    let mut line = printable(reason);
    line.truncate(MAX_ERROR_BYTES);
    line.push('\n');
    let directory = Directory::open(run)?;
    directory.write(ERROR_FILE, line.as_bytes())?;
    directory.remove(FILE)
}

/// Leaves neither file: there is no configuration.
///
/// # Errors
///
/// [`Error::Write`].
pub fn clear(run: &Path) -> Result<(), Error> {
    let directory = Directory::open(run)?;
    directory.remove(FILE)?;
    directory.remove(ERROR_FILE)
}

/// The directory, held open, 0700.
struct Directory {
    path: PathBuf,
    fd: OwnedFd,
}

impl Directory {
    fn open(run: &Path) -> Result<Self, Error> {
        let path = run.join(DIRECTORY);
        let opened = match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(
                &path,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .map_err(io::Error::from)
            .map(File::from)
            .and_then(|file| {
                file.set_permissions(Permissions::from_mode(0o700))?;
                Ok(OwnedFd::from(file))
            }),
        };
        match opened {
            Ok(fd) => Ok(Self { path, fd }),
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    /// Atomically, 0600 from its first byte on.
    fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let staging = format!(".{name}.{}", std::process::id());
        self.remove(&staging)?;
        let written = openat(
            &self.fd,
            &staging,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
        .map_err(io::Error::from)
        .and_then(|fd| {
            let mut file = File::from(fd);
            // Set explicitly, so that an odd umask has no say.
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(content)
        })
        .and_then(|()| Ok(renameat(&self.fd, &staging, &self.fd, name)?));
        written.map_err(|source| {
            // Nothing half-written stays, least of all half a password.
            let _ = self.remove(&staging);
            self.failed(name, source)
        })
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed(name, errno.into())),
        }
    }

    fn failed(&self, name: &str, source: io::Error) -> Error {
        Error::Write {
            path: self.path.join(name),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn state(run: &Path) -> Vec<(String, String, u32)> {
        let mut files: Vec<_> = fs::read_dir(run.join(DIRECTORY))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                (
                    path.file_name().unwrap().to_str().unwrap().to_owned(),
                    fs::read_to_string(&path).unwrap(),
                    path.metadata().unwrap().permissions().mode() & 0o7777,
                )
            })
            .collect();
        files.sort();
        files
    }

    fn file(name: &str, content: &str) -> Vec<(String, String, u32)> {
        vec![(name.into(), content.into(), 0o600)]
    }

    #[test]
    fn each_state_replaces_the_other() {
        let run = tempfile::tempdir().unwrap();
        clear(run.path()).unwrap();
        assert_eq!(state(run.path()), []);
        store(run.path(), b"one").unwrap();
        assert_eq!(state(run.path()), file(FILE, "one"));
        store(run.path(), b"two").unwrap();
        assert_eq!(state(run.path()), file(FILE, "two"));
        refuse(run.path(), "the\nreason").unwrap();
        assert_eq!(state(run.path()), file(ERROR_FILE, "the?reason\n"));
        store(run.path(), b"three").unwrap();
        assert_eq!(state(run.path()), file(FILE, "three"));
        refuse(run.path(), &"x".repeat(5000)).unwrap();
        assert_eq!(state(run.path())[0].1.len(), MAX_ERROR_BYTES + 1);
        clear(run.path()).unwrap();
        assert_eq!(state(run.path()), []);
    }

    #[test]
    fn the_directory_is_for_root_only_even_if_it_was_not() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join(DIRECTORY);
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        store(run.path(), b"secret").unwrap();
        assert_eq!(
            directory.metadata().unwrap().permissions().mode() & 0o7777,
            0o700
        );
    }

    #[test]
    fn links_in_the_way_are_not_followed() {
        let run = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), run.path().join(DIRECTORY)).unwrap();
        assert!(store(run.path(), b"secret").is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);

        fs::remove_file(run.path().join(DIRECTORY)).unwrap();
        clear(run.path()).unwrap();
        let victim = elsewhere.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        symlink(&victim, run.path().join(DIRECTORY).join(FILE)).unwrap();
        store(run.path(), b"secret").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(state(run.path()), file(FILE, "secret"));
    }

    #[test]
    fn a_result_that_cannot_be_written_is_an_error() {
        let run = tempfile::tempdir().unwrap();
        fs::write(run.path().join(DIRECTORY), "a file in the way").unwrap();
        assert!(matches!(
            refuse(run.path(), "reason"),
            Err(Error::Write { .. })
        ));
    }
}
