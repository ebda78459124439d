//! Where `umoci` 0.4.7 (Debian 12) unpacks something else, and why. An entry that is no longer
//! needed fails the test.

use std::collections::BTreeSet;

/// Differences with one reason: path, property, what is to be seen here, and with `umoci`.
pub struct KnownDifferences {
    #[expect(dead_code, reason = "for whoever reads this")]
    because: &'static str,
    differences: &'static [(&'static str, &'static str, &'static str, &'static str)],
}

/// All that are everywhere, and some that are not.
pub fn all_with(special: &[KnownDifferences]) -> BTreeSet<String> {
    let all = KNOWN.iter().chain(special);
    let all = all.flat_map(|known| known.differences);
    all.map(|(path, property, ours, theirs)| shown(path, property, ours, theirs)).collect()
}

pub fn shown(path: &str, property: &str, ours: &str, theirs: &str) -> String {
    format!("{path}: {property}: ours {ours:?}, umoci {theirs:?}")
}

const KNOWN: &[KnownDifferences] = &[
    KnownDifferences {
        because: "trusted attributes belong to the guest; containerd takes none either",
        differences: &[("attributes/trusted", "xattr trusted.text", "-", "value")],
    },
    KnownDifferences {
        because: "an attribute may be empty; umoci's reader drops such records",
        differences: &[("attributes/user", "xattr user.empty", "", "-")],
    },
    KnownDifferences {
        because: "umoci leaves the time of a directory changed in which it made a directory \
        without an entry, or removed something",
        differences: &[
            ("attributes/acl-directory", "mtime", "1.000000000", "now"),
            ("names", "mtime", "1700000000.000000000", "now"),
            ("odd", "mtime", "1700000000.000000000", "now"),
            ("over/again-last", "mtime", "1700000000.000000000", "now"),
            ("over/implied", "mtime", "30.000000000", "now"),
            ("repeats", "mtime", "1700000000.000000000", "now"),
        ],
    },
    KnownDifferences {
        because: "a directory without an entry inherits nothing here, neither an ACL nor a group: \
        its layer is unpacked alone, and no entry said so",
        differences: &[
            ("attributes/acl-directory/implied", "mode", "0755", "0775"),
            ("attributes/acl-directory/implied", ACL, "-", INHERITED),
            ("attributes/acl-directory/implied", DEFAULT, "-", INHERITED),
            ("over/implied/new", "mode", "0755", "2755"),
            ("over/implied/new", "owner", "0:0", "0:30"),
        ],
    },
    KnownDifferences {
        because: "a whiteout needs a directory to be in, also if there is nothing to hide; \
        containerd makes it too",
        differences: &[("over/nowhere", "kind", "directory", "-")],
    },
    KnownDifferences {
        because: "the target of a symbolic link is gone to step by step, as the kernel does; umoci \
        cuts \"x/..\" out of it",
        differences: &[("odd/nowhere", "kind", "directory", "-")],
    },
    KnownDifferences {
        because: "a symbolic link of a layer below is not followed: overlayfs joins what has one \
        path, with containerd too",
        differences: &[
            ("over/link-on-the-way", "kind", "directory", "symlink"),
            ("over/link-on-the-way/upper", "kind", "file", "-"),
            ("over/kept/upper", "kind", "-", "file"),
        ],
    },
];

/// Only through the overlay mount.
pub const MOUNTED: &[KnownDifferences] = &[KnownDifferences {
    because: "overlayfs lists whiteouts in a directory that only one layer has; with containerd \
    too",
    differences: &[("over/nowhere/never-there", "kind", "listed but not there", "-")],
}];

/// Only in a directory, without a mount.
pub const PULLED: &[KnownDifferences] = &[];

const ACL: &str = "xattr system.posix_acl_access";
const DEFAULT: &str = "xattr system.posix_acl_default";
const INHERITED: &str = concat!(
    r"\x02\x00\x00\x00\x01\x00\x07\x00\xff\xff\xff\xff\x02\x00\x07\x00\xe8\x03\x00\x00",
    r"\x04\x00\x05\x00\xff\xff\xff\xff\x10\x00\x07\x00\xff\xff\xff\xff \x00\x05\x00\xff\xff\xff\xff",
);
