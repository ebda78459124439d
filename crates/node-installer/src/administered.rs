//! Files and directories of a node that nobody but the administrator can have changed.
//!
//! Where a program runs without root (Kata's rootless mode), its own user is as good as root: that
//! user can do no more to the process than it could already.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::process::geteuid;

/// The bit of a directory's mode that keeps others' files from being replaced.
const STICKY: u32 = 0o1000;

/// Why somebody else can have changed a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdministered {
    /// Another user than root owns it; with that user's id.
    #[error("its owner is uid {0}, not root")]
    Owner(u32),
    /// Others than the owner can write it; with its permission bits.
    #[error("its mode {0:04o} lets others than its owner write to it")]
    Writable(u32),
}

impl NotAdministered {
    /// What the reader can do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Owner(_) => "make root its owner (chown root)",
            Self::Writable(_) => "let only its owner write to it (chmod go-w)",
        }
    }
}

/// Requires that only the administrator can have written the file: owner root, no write bit for
/// group and others. Of a directory: that nobody else makes, replaces or removes files in it.
///
/// # Errors
///
/// [`NotAdministered`].
pub fn require_administered(metadata: &Metadata) -> Result<(), NotAdministered> {
    let uid = metadata.uid();
    if uid != 0 && uid != geteuid().as_raw() {
        return Err(NotAdministered::Owner(uid));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(NotAdministered::Writable(mode));
    }
    Ok(())
}

/// Requires that nobody else can replace the administrator's files in a directory. Where it is
/// sticky, as `/tmp` is, nobody but its owner can.
///
/// # Errors
///
/// [`NotAdministered`].
pub fn require_kept(directory: &Metadata) -> Result<(), NotAdministered> {
    match require_administered(directory) {
        Err(NotAdministered::Writable(mode)) if mode & STICKY != 0 => Ok(()),
        judged => judged,
    }
}
