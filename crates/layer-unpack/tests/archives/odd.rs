//! What strict readers refuse and container engines take; and what stays refused, with a message
//! that names the entry and the cause.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use layer_unpack::archive::{Archive, EntryKind};
use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use crate::support::{Layer, first, sha256, unpack_blob, unpacked};

/// Why an archive is refused, with all causes.
fn refusal(archive: &[u8]) -> String {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let digest = sha256(archive);
    let error = unpack_blob(archive, digest.clone(), &digest, directory.path()).unwrap_err();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// `umoci insert` writes such archives; GNU tar extracts them and complains, Go's reader does not.
#[test]
fn privileged_the_last_entry_may_lack_its_padding() {
    vm_harness::needs_root!();
    let whole = Tar::default().file("first", "x").file("last", "the end").0;
    let end = whole.len() - 512 + "the end".len();
    for length in [end, end + 1, whole.len() - 1, whole.len()] {
        let archive = &whole[..length];
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let digest = sha256(archive);
        unpack_blob(archive, digest.clone(), &digest, directory.path()).unwrap();
        let content = fs::read(directory.path().join("last")).unwrap();
        assert_eq!(content, b"the end", "{length}");
    }
    let said = refusal(&whole[..end - 1]);
    assert!(
        said.contains("entry 2 of the archive, \"last\": the archive ends in the middle of it"),
        "{said}"
    );
    let said = refusal(&whole[..1100]);
    assert!(said.contains("the archive ends in a header"), "{said}");
}

/// Six causes once had one message, "entry 2 has a broken header".
#[test]
fn errors_name_the_entry_and_the_cause() {
    let field = |at: usize, text: &'static [u8]| {
        move |header: &mut Header| header.as_mut_bytes()[at..at + text.len()].copy_from_slice(text)
    };
    let node = |header: &mut Header| header.as_mut_bytes()[329..331].copy_from_slice(b"x\0");
    let v7 = |header: &mut Header| header.as_mut_bytes()[257..].fill(0);
    for (entry, cause) in [
        (Tar::default().file_with("bad", b"", field(100, b"rwx")), "its mode cannot be read"),
        (Tar::default().file_with("bad", b"", field(108, b"me")), "its owner or group"),
        (Tar::default().file_with("bad", b"", field(116, b"us")), "its owner or group"),
        (Tar::default().file_with("bad", b"", field(124, b"big")), "its size cannot be read"),
        (Tar::default().file_with("bad", b"", field(136, b"now")), "its time cannot be read"),
        (Tar::default().entry_with(EntryType::Char, "bad", "", b"", node), "numbers that Linux"),
        (Tar::default().entry_with(EntryType::Char, "bad", "", b"", v7), "no place for a device"),
        (Tar::default().entry(EntryType::new(b'Z'), "bad", "", b""), "of unknown type 'Z'"),
        (Tar::default().pax(&[("uid", b"4294967296")]).file("bad", ""), "Linux does not have"),
        (Tar::default().pax(&[("gid", b"-2147483649")]).file("bad", ""), "Linux does not have"),
    ] {
        let archive = Tar::default().file("good", "x").0;
        let said = refusal(&[archive, entry.bytes()].concat());
        assert!(said.contains("of the archive, \"bad\": "), "{said}");
        assert!(said.contains(cause), "{cause}: {said}");
    }
    let mut sum = Tar::default().file("good", "").file("bad", "").bytes();
    sum[512] ^= 1;
    let said = refusal(&sum);
    let expected = "entry 2 of the archive, \"cad\": the sum of its header does not hold";
    assert!(said.contains(expected), "{said}");
    let record = Tar::default().pax(&[("mtime", b"soon")]).file("bad", "");
    let said = refusal(&record.bytes());
    assert!(said.contains("entry 1 of the archive, \"PaxHeaders/x\": extended header"), "{said}");
    // What an archive calls its entries is shown so that a terminal takes no harm.
    let hostile = Tar::default().file_with(b"\x1b[2J\xff", b"", field(100, b"rwx"));
    let said = refusal(&hostile.bytes());
    assert!(!said.contains('\x1b') && said.contains("\\u{1b}[2J"), "{said}");
}

#[test]
fn what_has_no_content_may_claim_a_size() {
    let sized = |header: &mut Header| header.set_size(u64::MAX >> 2);
    for kind in [
        EntryType::Link,
        EntryType::Symlink,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Directory,
    ] {
        let tar = Tar::default().entry_with(kind, "a", "b", b"", sized).file("next", "x");
        let bytes = tar.bytes();
        let mut archive = Archive::new(&bytes[..], 10);
        archive.next_entry().unwrap().unwrap();
        assert_eq!(archive.next_entry().unwrap().unwrap().path, b"next", "{kind:?}");
    }
}

/// The kernel takes 32 bits: Go's programs hand over what there is, and -1 leaves the owner.
#[test]
fn owners_may_be_negative_or_left() {
    for (text, expected) in [
        (&b"4294967294"[..], Some(u32::MAX - 1)),
        (b"4294967295", None),
        (b"-1", None),
        (b"-2", Some(u32::MAX - 1)),
        (b"-2147483648", Some(1 << 31)),
    ] {
        let entry = first(Tar::default().pax(&[("uid", text), ("gid", text)]).file("a", ""));
        let entry = entry.unwrap();
        assert_eq!((entry.uid, entry.gid), (expected, expected), "{text:?}");
    }
}

#[test]
fn a_sum_may_be_of_signed_bytes() {
    let mut bytes = Tar::default().file(b"\xff\xfe", "x").bytes();
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| i32::from(byte.cast_signed())).sum::<i32>();
    bytes[148..156].fill(b' ');
    let text = format!("{:06o}\0 ", sum(&bytes[..512]));
    bytes[148..156].copy_from_slice(text.as_bytes());
    let entry = Archive::new(&bytes[..], 10).next_entry().unwrap().unwrap();
    assert_eq!(entry.kind, EntryKind::File);
}

fn names(layer: &Layer, directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(layer.root.join(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Builders that put archives together without a look at the layers below write this for a merged
/// /usr. The target is made below the layer's root, wherever the link leads.
#[test]
fn privileged_an_entry_behind_a_link_makes_its_directory() {
    vm_harness::needs_root!();
    let layer = unpacked(
        Tar::default()
            .symlink("bin", "usr/bin")
            .file("bin/x", "x")
            .symlink("run", "/far/away")
            .file("run/y", "y")
            .symlink("up", "../../../../etc")
            .file("up/z", "z")
            .symlink("a", "b")
            .symlink("b", "./c//d/../e")
            .file("a/deep/w", "w")
            .file("bin/.wh.gone", ""),
    );
    for (path, content) in [("usr/bin/x", "x"), ("far/away/y", "y"), ("etc/z", "z")] {
        assert_eq!(fs::read_to_string(layer.root.join(path)).unwrap(), content);
    }
    assert_eq!(fs::read(layer.root.join("c/e/deep/w")).unwrap(), b"w");
    let whiteout = layer.root.join("usr/bin/gone").symlink_metadata().unwrap();
    assert_eq!(whiteout.rdev(), 0);
    let expected = ["a", "b", "bin", "c", "etc", "far", "run", "up", "usr"];
    assert_eq!(names(&layer, "."), expected.map(str::to_owned).into());
    assert_eq!(names(&layer, "c"), ["d", "e"].map(str::to_owned).into());
}

/// Nothing of a way that leads nowhere is made outside, and links that lead to each other end.
#[test]
fn privileged_a_way_may_lead_nowhere() {
    vm_harness::needs_root!();
    for (tar, cause) in [
        (Tar::default().symlink("a", "b").symlink("b", "a").file("a/x", ""), "symbolic link"),
        (Tar::default().symlink("a", "a").file("a/x", ""), "symbolic link"),
        (Tar::default().file("f", "").symlink("a", "f").file("a/x", ""), "Not a directory"),
        (Tar::default().symlink("a", "a/a/b").file("a/x", ""), "symbolic link"),
    ] {
        let said = refusal(&tar.bytes());
        assert!(said.contains("cannot open the directory of \"a/x\""), "{said}");
        assert!(said.contains(cause), "{said}");
    }
}

/// Cut at the prefix, the name of what is hidden is `..`. umoci 0.4.7 removes the directory above
/// its target for this entry, whatever else is in it; containerd 1.6 removes nothing and goes on.
#[test]
fn a_whiteout_of_the_directory_above_is_refused() {
    for name in [".wh...", "a/.wh...", ".wh..", ".wh."] {
        let said = refusal(&Tar::default().file(name, "").bytes());
        assert!(said.contains("is a whiteout of nothing"), "{name}: {said}");
    }
}
