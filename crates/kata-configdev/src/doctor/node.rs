//! What of the node is not looked at.

use std::io::ErrorKind;

use rustix::process::geteuid;

use crate::host_file::FileFault;

/// Who runs this, where that is not root: what only root reads is not looked at then.
#[must_use]
pub fn other_than_root() -> Option<u32> {
    let user = geteuid();
    (!user.is_root()).then(|| user.as_raw())
}

/// Whether a file is denied to who runs this, and need not be to sandboxes.
#[must_use]
pub fn is_denied(fault: &FileFault) -> bool {
    let is_denied =
        matches!(fault, FileFault::Io(error) if error.kind() == ErrorKind::PermissionDenied);
    is_denied && other_than_root().is_some()
}
