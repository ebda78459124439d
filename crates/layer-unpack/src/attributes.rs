//! Extended attributes: which of them a layer may set, and how they are set.
//!
//! Attributes of users, file capabilities and POSIX ACLs come in, as with containerd. The rest is
//! the guest's business: `trusted.overlay.*` would redirect lookups of the mount, and labels belong
//! to the guest's own policy. ACLs come in the kernel's form
//! (`SCHILY.xattr.system.posix_acl_access`); those in words (`SCHILY.acl.access`), which name users
//! of the machine that packed them, are taken by no container engine.

use std::os::fd::{AsFd, AsRawFd as _};

use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, lsetxattr};
use rustix::io::Errno;

use super::archive::{Entry, EntryKind};
use super::directory::xattr_names;
use super::pax::Xattr;

/// The ACL of a file.
pub const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// The ACL that new files in a directory inherit.
pub const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// Whether a layer may set an attribute.
#[must_use]
pub fn is_taken(name: &[u8]) -> bool {
    name.starts_with(b"user.") || [b"security.capability", ACCESS_ACL, DEFAULT_ACL].contains(&name)
}

/// Sets the attributes of a file or directory; says how many are not taken over. The owner is set
/// before, for that removes capabilities, and the mode too, for an ACL is the more precise.
pub(crate) fn set<'a>(
    file: impl AsFd,
    xattrs: impl IntoIterator<Item = &'a Xattr>,
) -> Result<u64, Errno> {
    let mut skipped = 0;
    for (name, value) in xattrs {
        let is_set = is_taken(name)
            && is_supported(name, fsetxattr(&file, &name[..], value, XattrFlags::empty()))?;
        skipped += u64::from(!is_set);
    }
    Ok(skipped)
}

/// Sets the ACL of a node, which is not opened; other attributes that nodes may have are not taken
/// over.
pub(crate) fn set_node(directory: impl AsFd, name: &[u8], entry: &Entry) -> Result<u64, Errno> {
    let mut skipped = entry.xattrs.len() as u64;
    let acl = entry.xattrs.iter().find(|(name, _)| name == ACCESS_ACL);
    if let Some((attribute, value)) = acl.filter(|_| !matches!(entry.kind, EntryKind::Symlink(_))) {
        // Neither the descriptor nor the name leads anywhere else.
        let mut path = format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        let set = lsetxattr(&path[..], &attribute[..], value, XattrFlags::empty());
        skipped -= u64::from(is_supported(attribute, set)?);
    }
    Ok(skipped)
}

/// The attributes of a directory, except what its children would inherit.
pub(crate) fn of_directory(entry: &Entry) -> impl Iterator<Item = &Xattr> {
    entry.xattrs.iter().filter(|(name, _)| name != DEFAULT_ACL)
}

/// What is to be inherited in a directory. Set when nothing more is made in it, or the layer's own
/// files would inherit it.
pub(crate) fn default_acl(entry: &Entry) -> Option<&[u8]> {
    let acl = entry.xattrs.iter().find(|(name, _)| name == DEFAULT_ACL);
    acl.map(|(_, value)| &value[..])
}

/// See [`default_acl`].
pub(crate) fn set_default_acl(directory: impl AsFd, value: &[u8]) -> Result<(), Errno> {
    let set = fsetxattr(directory, DEFAULT_ACL, value, XattrFlags::empty());
    is_supported(DEFAULT_ACL, set).map(|_| ())
}

/// Says how many were not taken over.
pub(crate) fn tell_skipped(count: u64) {
    if count > 0 {
        tracing::debug!(count, "extended attributes of the layer that are not taken over");
    }
}

/// Removes what an earlier entry of the same directory set.
pub fn clear(directory: impl AsFd) -> Result<(), Errno> {
    for name in xattr_names(&directory)? {
        if is_taken(&name) {
            fremovexattr(&directory, &name[..])?;
        }
    }
    Ok(())
}

/// A tmpfs before Linux 6.6 has no user attributes, and some kernels have no ACLs: no program may
/// rely on them there.
fn is_supported(name: &[u8], set: Result<(), Errno>) -> Result<bool, Errno> {
    match set {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP) if name != b"security.capability" => Ok(false),
        Err(error) => Err(error),
    }
}
