//! Extended attributes and ACLs, those that come in and those that do not.

use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use super::with;

/// `cap_net_bind_service`, effective and permitted, as Linux writes it (revision 2).
pub const CAPABILITY_2: &[u8] = b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The same for a user namespace whose root is 100000 (revision 3).
const CAPABILITY_3: &[u8] = b"\x01\0\0\x03\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xa0\x86\x01\0";

/// `user::rw-,user:1000:rwx,group::r--,mask::rwx,other::---`
pub const ACCESS_ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x07\0\xe8\x03\0\0\
    \x04\0\x04\0\xff\xff\xff\xff\x10\0\x07\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

/// `user::rwx,user:1000:rwx,group::r-x,mask::rwx,other::r-x`
pub const DEFAULT_ACL: &[u8] = b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x07\0\xe8\x03\0\0\
    \x04\0\x05\0\xff\xff\xff\xff\x10\0\x07\0\xff\xff\xff\xff\x20\0\x05\0\xff\xff\xff\xff";

/// The layer.
pub fn attributes() -> Vec<u8> {
    let acl = ("SCHILY.xattr.system.posix_acl_access", ACCESS_ACL);
    let default = ("SCHILY.xattr.system.posix_acl_default", DEFAULT_ACL);
    let node = |header: &mut Header| {
        header.set_mode(0o670);
        header.set_device_major(1).unwrap();
        header.set_device_minor(3).unwrap();
    };
    Tar::default()
        .directory("attributes")
        .pax(&[("SCHILY.xattr.security.capability", CAPABILITY_2)])
        .file_with("attributes/capability-2", "x", with(0o755, 1000, 1))
        .hard_link("attributes/capability-again", "attributes/capability-2")
        .pax(&[("SCHILY.xattr.security.capability", CAPABILITY_3)])
        .file_with("attributes/capability-3", "x", with(0o4755, 0, 1))
        .pax(&[
            ("SCHILY.xattr.user.text", b"value"),
            ("SCHILY.xattr.user.bytes", b"\0\n=\xff"),
            ("SCHILY.xattr.user.empty", b""),
            ("SCHILY.xattr.user.twice", b"first"),
            ("SCHILY.xattr.user.twice", b"second"),
        ])
        .file("attributes/user", "x")
        .pax(&[("SCHILY.xattr.user.large", &[b'l'; 2000])])
        .directory("attributes/user-directory")
        .pax(&[("SCHILY.xattr.trusted.text", b"value"), ("SCHILY.xattr.user.kept", b"yes")])
        .file("attributes/trusted", "x")
        .pax(&[("SCHILY.xattr.trusted.overlay.opaque", b"y")])
        .directory("attributes/opaque-by-attribute")
        .pax(&[acl])
        .file_with("attributes/acl", "x", with(0o670, 3, 1))
        .pax(&[acl, default])
        .directory_with("attributes/acl-directory", with(0o670, 3, 1))
        .file_with("attributes/acl-directory/below", "x", with(0o640, 3, 1))
        .directory_with("attributes/acl-directory/dir", with(0o750, 3, 1))
        .file("attributes/acl-directory/implied/file", "x")
        .pax(&[acl])
        .entry_with(EntryType::Char, "attributes/acl-node", "", b"", node)
        .pax(&[acl])
        .entry_with(EntryType::Fifo, "attributes/acl-pipe", "", b"", with(0o670, 3, 1))
        .pax(&[("SCHILY.acl.access", b"user::rw-,user:1000:rwx,group::r--,mask::rwx,other::---")])
        .file_with("attributes/acl-in-words", "x", with(0o670, 3, 1))
        .pax(&[("SCHILY.xattr.user.first", b"1"), default])
        .directory("attributes/twice")
        .pax(&[("SCHILY.xattr.user.second", b"2")])
        .directory("attributes/twice")
        .pax(&[("SCHILY.xattr.user.below", b"1")])
        .directory("attributes/lower")
        .file("attributes/lower/file", "x")
        .bytes()
}
