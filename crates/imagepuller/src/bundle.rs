//! The directory that a caller wants an image in.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
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
        let refuse = |rule| {
            Err(Error::Bundle {
                path: text.chars().take(MAX_BUNDLE_BYTES).collect(),
                rule,
            })
        };
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
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Where the image is mounted.
    pub fn rootfs(&self) -> PathBuf {
        self.path.join("rootfs")
    }

    /// Makes the bundle and the mount point in it. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::File`], and [`Error::Bundle`] if something is mounted there already.
    pub fn prepare(&self) -> Result<PathBuf, Error> {
        let rootfs = self.rootfs();
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.path)
            .map_err(Error::file("create", &self.path))?;
        match DirBuilder::new().mode(0o755).create(&rootfs) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::file("create", &rootfs)(error));
            }
            _ => {}
        }
        let found = fs::symlink_metadata(&rootfs).map_err(Error::file("examine", &rootfs))?;
        if !found.is_dir() {
            return Err(self.refuse("has a \"rootfs\" that is no directory"));
        }
        if is_mount_point(&rootfs)? {
            return Err(self
                .refuse("has an image mounted already; every container has a bundle of its own"));
        }
        Ok(rootfs)
    }

    fn refuse(&self, rule: &'static str) -> Error {
        Error::Bundle {
            path: self.path.display().to_string(),
            rule,
        }
    }
}

fn is_mount_point(path: &Path) -> Result<bool, Error> {
    let stat = rustix::fs::statx(
        CWD,
        path,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS,
    );
    let stat = stat.map_err(|error| Error::file("examine", path)(error.into()))?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_without_detours_are_taken() {
        assert!(Bundle::parse("/run/kata-containers/c1").is_ok());
        let long = format!("/{}", "a".repeat(MAX_BUNDLE_BYTES));
        for path in [
            "",
            "run",
            "./run",
            "/",
            "/run/../etc",
            "/run/..",
            "/run\0",
            &long,
        ] {
            assert!(
                matches!(Bundle::parse(path), Err(Error::Bundle { .. })),
                "{path}"
            );
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
