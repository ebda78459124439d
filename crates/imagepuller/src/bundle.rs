//! The directory that a caller wants an image in.

use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};

use crate::error::Error;

/// The longest path of a bundle; Kata's have about 100 bytes.
const MAX_BUNDLE_BYTES: usize = 3072;

/// A bundle directory whose path may be used.
#[derive(Clone, Debug)]
pub struct Bundle {
    path: PathBuf,
}

impl Bundle {
    /// Checks the path that a caller sent.
    ///
    /// # Errors
    ///
    /// [`Error::Bundle`] for anything but an absolute path without `..`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refuse =
            |rule| Err(Error::Bundle { path: text.chars().take(MAX_BUNDLE_BYTES).collect(), rule });
        let path = Path::new(text);
        if text.len() > MAX_BUNDLE_BYTES {
            return refuse("is too long");
        }
        if text.contains('\0') {
            return refuse("has a zero byte");
        }
        if !path.is_absolute() {
            return refuse("is not absolute");
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return refuse("has a component \"..\"");
        }
        if path.components().count() < 2 {
            return refuse("is the root of the guest");
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Where the image is mounted.
    pub fn rootfs(&self) -> PathBuf {
        self.path.join("rootfs")
    }

    /// Makes the bundle and the mount point in it. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Store`], and [`Error::Bundle`] if something is mounted there already.
    pub fn prepare(&self) -> Result<PathBuf, Error> {
        let rootfs = self.rootfs();
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.path)
            .map_err(layer_store::Error::file("create", &self.path))?;
        if let Err(error) = DirBuilder::new().mode(0o755).create(&rootfs)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(layer_store::Error::file("create", &rootfs)(error).into());
        }
        let found = fs::symlink_metadata(&rootfs);
        let found = found.map_err(layer_store::Error::file("examine", &rootfs))?;
        if !found.is_dir() {
            return Err(self.refuse("has a \"rootfs\" that is no directory"));
        }
        if is_mount_point(&rootfs)? {
            return Err(self
                .refuse("has an image mounted already; every container has a bundle of its own"));
        }
        Ok(rootfs)
    }

    /// Writes the image's own configuration (entry point, environment, user; OCI image
    /// specification, "Image Configuration") beside the mount point, for callers that want it.
    /// Whole or not at all. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub fn write_configuration(&self, verified: &[u8]) -> Result<(), Error> {
        write_configuration(&self.path, verified)
    }

    fn refuse(&self, rule: &'static str) -> Error {
        Error::Bundle { path: self.path.display().to_string(), rule }
    }
}

/// The file that holds an image's configuration; `config.json` is the agent's.
pub const CONFIGURATION: &str = "image-config.json";

/// Writes an image's configuration into a directory, by rename. Blocks.
pub(crate) fn write_configuration(directory: &Path, verified: &[u8]) -> Result<(), Error> {
    let target = directory.join(CONFIGURATION);
    let failed = |error| layer_store::Error::file("write", &target)(error);
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    file.write_all(verified).map_err(failed)?;
    let mode = fs::Permissions::from_mode(0o644);
    file.as_file().set_permissions(mode).map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

fn is_mount_point(path: &Path) -> Result<bool, Error> {
    let stat = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
    let stat = stat.map_err(|error| layer_store::Error::file("examine", path)(error.into()))?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_without_detours_are_taken() {
        assert!(Bundle::parse("/run/kata-containers/c1").is_ok());
        let long = format!("/{}", "a".repeat(MAX_BUNDLE_BYTES));
        for path in ["", "run", "./run", "/", "/run/../etc", "/run/..", "/run\0", &long] {
            assert!(matches!(Bundle::parse(path), Err(Error::Bundle { .. })), "{path}");
        }
    }

    #[test]
    fn the_mount_point_is_made_and_may_be_there() {
        let directory = tempfile::tempdir().unwrap();
        let bundle = Bundle::parse(directory.path().join("c1").to_str().unwrap()).unwrap();
        let rootfs = bundle.prepare().unwrap();
        assert!(rootfs.is_dir());
        assert!(bundle.prepare().is_ok());
        fs::remove_dir(&rootfs).unwrap();
        std::os::unix::fs::symlink("/tmp", &rootfs).unwrap();
        assert!(matches!(bundle.prepare(), Err(Error::Bundle { .. })));
    }
}
