//! Extended attributes that layers may set, and those that they may not.
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::llistxattr;
use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use crate::support::unpacked;

/// `user::rw-,user:1000:rwx,group::r--,mask::rwx,other::---`
const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x07\0\xe8\x03\0\0\
    \x04\0\x04\0\xff\xff\xff\xff\x10\0\x07\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

const ACCESS: &str = "SCHILY.xattr.system.posix_acl_access";
const DEFAULT: &str = "SCHILY.xattr.system.posix_acl_default";

fn names(path: &Path) -> Vec<String> {
    let mut names = Vec::with_capacity(64 << 10);
    llistxattr(path, spare_capacity(&mut names)).unwrap();
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(|name| String::from_utf8(name.to_vec()).unwrap()).collect();
    names.sort();
    names
}

#[test]
fn privileged_only_some_attributes_come_in() {
    vm_harness::needs_root!();
    let records: &[(&str, &[u8])] = &[
        ("SCHILY.xattr.user.a", b"1"),
        ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.trusted.a", b"1"),
        ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
        ("SCHILY.xattr.security.selinux", b"system_u:object_r:shadow_t:s0"),
        ("SCHILY.xattr.security.ima", b"\x04"),
        ("SCHILY.xattr.system.nfs4_acl", b"x"),
        ("SCHILY.xattr.system.posix_acl", b"x"),
        ("SCHILY.xattr.unknown", b"x"),
        ("SCHILY.xattr.", b"x"),
        ("LIBARCHIVE.xattr.user.b", b"MQ"),
        ("RHT.security.selinux", b"x"),
        ("SCHILY.acl.access", b"user::rw-,user:root:rwx,group::r--,mask::rwx,other::---"),
    ];
    let tar = Tar::default().pax(records).file("file", "x").pax(records).directory("directory");
    let tar = tar.pax(records).symlink("link", "file").pax(records).entry(
        EntryType::Fifo,
        "pipe",
        "",
        b"",
    );
    let layer = unpacked(tar);
    for name in ["file", "directory"] {
        assert_eq!(names(&layer.root.join(name)), ["user.a", "user.overlay.redirect"], "{name}");
    }
    for name in ["link", "pipe"] {
        assert!(names(&layer.root.join(name)).is_empty(), "{name}");
    }
}

#[test]
fn privileged_acls_hold_where_they_were_set_and_nowhere_else() {
    vm_harness::needs_root!();
    let mode = |mode| move |header: &mut Header| header.set_mode(mode);
    let both: &[(&str, &[u8])] = &[(ACCESS, ACL), (DEFAULT, ACL)];
    let tar = Tar::default()
        .pax(both)
        .directory_with("d", mode(0o670))
        .file_with("d/file", b"x", mode(0o604))
        .directory_with("d/directory", mode(0o705))
        .file("d/implied/file", "x")
        .pax(&[(ACCESS, ACL)])
        .entry_with(EntryType::Fifo, "d/pipe", "", b"", mode(0o670))
        .pax(&[(ACCESS, ACL)])
        .symlink("d/link", "file")
        .pax(&[(DEFAULT, ACL), ("SCHILY.xattr.user.first", b"1")])
        .directory("twice")
        .pax(&[("SCHILY.xattr.user.second", b"1")])
        .directory("twice")
        .pax(both)
        .directory("./")
        .directory("./");
    let layer = unpacked(tar);
    let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
    for (name, mode, expected) in [
        ("d", 0o670, &[access, default][..]),
        ("d/file", 0o604, &[]),
        ("d/directory", 0o705, &[]),
        ("d/implied", 0o755, &[]),
        ("d/implied/file", 0o644, &[]),
        ("d/pipe", 0o670, &[access]),
        ("d/link", 0o777, &[]),
        ("twice", 0o755, &["user.second"]),
        ("", 0o755, &[]),
    ] {
        let path = layer.root.join(name);
        assert_eq!(names(&path), expected, "{name}");
        assert_eq!(path.symlink_metadata().unwrap().mode() & 0o7777, mode, "{name}");
    }
}
