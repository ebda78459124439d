//! The same tree packed by the programs that people use, holes, attributes and ACLs included.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

use super::torture::{ACCESS_ACL, CAPABILITY_2, DEFAULT_ACL};

const MIB: u64 = 1 << 20;

/// Files with holes, with the bytes of data that they have.
pub const HOLES: [(&str, u64); 4] = [
    ("holes", 3 * 4096),
    ("only-a-hole", 0),
    ("data-at-the-end", 4096),
    ("many-holes", 100 * 4096),
];

/// How to pack a tree.
pub struct Packer {
    /// The tree's own name in the archive.
    pub name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// Arguments that `umoci` needs instead.
    for_umoci: Option<&'static [&'static str]>,
}

pub const PACKERS: [Packer; 6] = [
    Packer {
        name: "gnu-tar-posix",
        program: "tar",
        arguments: &["--format=posix", "--xattrs", "--xattrs-include=*", "--acls"],
        for_umoci: None,
    },
    Packer {
        name: "gnu-tar-sparse-old",
        program: "tar",
        arguments: &["--format=gnu", "--sparse"],
        // It calls the type of these entries unknown.
        for_umoci: Some(&["--format=gnu"]),
    },
    Packer {
        name: "gnu-tar-sparse-0.0",
        program: "tar",
        arguments: &["--format=posix", "--sparse", "--sparse-version=0.0"],
        for_umoci: None,
    },
    Packer {
        name: "gnu-tar-sparse-0.1",
        program: "tar",
        arguments: &["--format=posix", "--sparse", "--sparse-version=0.1", "--xattrs"],
        for_umoci: None,
    },
    Packer {
        name: "gnu-tar-sparse-1.0",
        program: "tar",
        arguments: &["--format=posix", "--sparse", "--sparse-version=1.0", "--xattrs"],
        for_umoci: None,
    },
    Packer { name: "bsdtar", program: "bsdtar", arguments: &["--format=pax"], for_umoci: None },
];

impl Packer {
    /// Whether holes stay holes in its archives.
    pub fn keeps_holes(&self) -> bool {
        self.name != "gnu-tar-posix"
    }

    /// Makes the tree below `directory`.
    pub fn make_tree(&self, directory: &Path) {
        make_tree(&directory.join(self.name));
    }

    /// Packs the tree below `directory`.
    pub fn pack(&self, directory: &Path, is_for_umoci: bool) -> Vec<u8> {
        let for_umoci = self.for_umoci.filter(|_| is_for_umoci);
        let output = Command::new(self.program)
            .arg("-C")
            .arg(directory)
            .args(["-cf", "-"])
            .args(for_umoci.unwrap_or(self.arguments))
            .arg(self.name)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", self.program);
        output.stdout
    }
}

fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("directory")).unwrap();
    fs::write(root.join("set-uid"), "program").unwrap();
    set_xattr(&root.join("set-uid"), b"security.capability", CAPABILITY_2);
    fs::set_permissions(root.join("set-uid"), fs::Permissions::from_mode(0o4711)).unwrap();
    fs::hard_link(root.join("set-uid"), root.join("directory/linked")).unwrap();
    fs::write(root.join("acl"), "x").unwrap();
    set_xattr(&root.join("acl"), b"system.posix_acl_access", ACCESS_ACL);
    fs::create_dir(root.join("acl-directory")).unwrap();
    set_xattr(&root.join("acl-directory"), b"system.posix_acl_default", DEFAULT_ACL);
    fs::write(root.join("user"), "x").unwrap();
    set_xattr(&root.join("user"), b"user.text", b"a\0b");
    fs::write(root.join("caf\u{e9}"), "x").unwrap();
    fs::write(root.join("l".repeat(200)), "long").unwrap();
    symlink("t".repeat(200), root.join("symlink")).unwrap();
    let node = |name: &str, kind, device| {
        let path = root.join(name);
        rustix::fs::mknodat(CWD, &path, kind, Mode::RUSR, device).unwrap();
    };
    node("pipe", FileType::Fifo, 0);
    node("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    rustix::fs::chown(
        root.join("user"),
        Some(rustix::fs::Uid::from_raw(3_000_000_000)),
        Some(rustix::fs::Gid::from_raw(100_000)),
    )
    .unwrap();
    write_holes(root);
    // The root's own at the end, for the others change it.
    let names = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let below = root.join("directory/linked");
    for path in names.chain([below, root.join("directory"), root.to_owned()]) {
        let time = Timespec {
            tv_sec: 1_650_000_000 + i64::try_from(path.as_os_str().len()).unwrap(),
            tv_nsec: 123_456_789,
        };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

fn write_holes(root: &Path) {
    let file = |name: &str, size: u64, data: &[u64]| {
        let file = fs::File::create(root.join(name)).unwrap();
        for at in data {
            file.write_all_at(&[b'd'; 4096], *at).unwrap();
        }
        file.set_len(size).unwrap();
    };
    file("holes", 10 * MIB + 17, &[0, MIB, 5 * MIB]);
    file("only-a-hole", 3 * MIB, &[]);
    file("data-at-the-end", 2 * MIB, &[2 * MIB - 4096]);
    let many: Vec<_> = (0..100).map(|at| at * 64 * 1024).collect();
    file("many-holes", 7 * MIB, &many);
}

fn set_xattr(path: &Path, name: &[u8], value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}
