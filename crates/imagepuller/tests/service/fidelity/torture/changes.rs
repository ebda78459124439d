//! Things that are there twice, in one layer or in two.

use tar::EntryType;
use vm_harness::archive::Tar;

use super::with;

/// What one layer says twice or in an unusual order.
pub fn repeats() -> Vec<u8> {
    Tar::default()
        .directory("repeats")
        .file("repeats/late/child", "x")
        .file("repeats/late/deeper/child", "x")
        .directory_with("repeats/late/deeper", with(0o700, 5, 5))
        .pax(&[("mtime", b"1234567890.5")])
        .directory_with("repeats/late", with(0o750, 6, 6))
        .file_with("repeats/file", b"a longer first one", with(0o4777, 9, 9))
        .file_with("repeats/file", b"second", with(0o600, 8, 8))
        .directory("repeats/dir-then-file")
        .file("repeats/dir-then-file/below", "x")
        .file("repeats/dir-then-file", "a file now")
        .file("repeats/file-then-dir", "x")
        .directory("repeats/file-then-dir")
        .file("repeats/file-then-dir/below", "x")
        .directory("repeats/target")
        .file("repeats/target/kept", "x")
        .symlink("repeats/link-then-dir", "target")
        .directory("repeats/link-then-dir")
        .file("repeats/link-then-dir/below", "x")
        .symlink("repeats/link-then-file", "target/kept")
        .file("repeats/link-then-file", "own content")
        .directory("repeats/dir-then-link")
        .symlink("repeats/dir-then-link", "target")
        .file("repeats/linked", "linked")
        .hard_link("repeats/linked-too", "repeats/linked")
        .file("repeats/linked", "a new file under the old name")
        .file("repeats/file-then-linked", "x")
        .hard_link("repeats/file-then-linked", "repeats/linked-too")
        .directory_with("repeats/twice", with(0o700, 1, 1))
        .file("repeats/twice/below", "x")
        .directory_with("repeats/twice", with(0o755, 2, 2))
        .bytes()
}

/// What the layer above changes.
pub fn lower() -> Vec<u8> {
    let names = [
        "file-to-dir",
        "file-to-link",
        "file-to-file",
        "link-to-file",
        "link-to-dir",
        "dir-to-file",
        "dir-to-link",
        "removed-file",
        "removed-dir",
        "removed-link",
        "opaque",
        "opaque-first",
        "opaque-last",
        "again-first",
        "again-last",
        "again-file-first",
        "again-file-last",
        "kept",
        "metadata",
        "implied",
        "removed-node",
        "link-on-the-way",
    ];
    let tar = Tar::default().directory_with("over", with(0o755, 0, 20));
    names
        .into_iter()
        .fold(tar, |tar, name| {
            let path = format!("over/{name}");
            if name.starts_with("file")
                || name.contains("-file") && !name.starts_with("dir") && !name.starts_with("link")
            {
                tar.file(path, "lower")
            } else if name.starts_with("link") || name == "removed-link" {
                tar.symlink(path, "kept")
            } else if name == "removed-node" {
                tar.entry(EntryType::Fifo, path, "", b"")
            } else {
                tar.directory_with(&path, with(0o2750, 30, 30))
                    .file_with(format!("{path}/lower"), b"lower", with(0o640, 31, 31))
                    .directory_with(format!("{path}/sub"), with(0o700, 32, 32))
                    .file(format!("{path}/sub/lower"), "lower")
            }
        })
        .bytes()
}

/// Changes, removals and replacements of what [`lower`] has.
pub fn upper() -> Vec<u8> {
    Tar::default()
        .directory("over/file-to-dir")
        .file("over/file-to-dir/upper", "upper")
        .symlink("over/file-to-link", "kept")
        .file("over/file-to-file", "upper")
        .file("over/link-to-file", "upper")
        .directory("over/link-to-dir")
        .file("over/link-to-dir/upper", "upper")
        .file("over/dir-to-file", "upper")
        .symlink("over/dir-to-link", "kept")
        .file("over/.wh.removed-file", "")
        .file("over/.wh.removed-dir", "")
        .file("over/.wh.removed-link", "")
        .file("over/.wh.removed-node", "")
        .file("over/.wh.never-there", "")
        .file("over/nowhere/.wh.never-there", "")
        .directory("over/opaque")
        .file("over/opaque/.wh..wh..opq", "")
        .file("over/opaque-first/.wh..wh..opq", "")
        .directory("over/opaque-first")
        .file("over/opaque-first/upper", "upper")
        .directory("over/opaque-last")
        .file("over/opaque-last/upper", "upper")
        .file("over/opaque-last/.wh..wh..opq", "")
        .file("over/.wh.again-first", "")
        .directory("over/again-first")
        .file("over/again-first/upper", "upper")
        .directory("over/again-last")
        .file("over/again-last/upper", "upper")
        .file("over/.wh.again-last", "")
        .file("over/.wh.again-file-first", "")
        .file("over/again-file-first", "upper")
        .file("over/again-file-last", "upper")
        .file("over/.wh.again-file-last", "")
        .file("over/kept/.wh.lower", "")
        .directory_with("over/metadata", with(0o1777, 40, 40))
        .file("over/implied/sub/upper", "upper")
        .file("over/implied/new/upper", "upper")
        .file("attributes/lower/upper", "upper")
        .file("over/link-on-the-way/upper", "upper")
        .pax(&[("SCHILY.xattr.user.above", b"1")])
        .directory("attributes/user-directory")
        .bytes()
}
