//! What an archive may not have more of than the documented limits, and may have just as much of.
use layer_unpack::ArchiveError;
use layer_unpack::archive::{Archive, EntryKind, MAX_PATH_BYTES, MAX_PAX_BYTES};
use layer_unpack::pax::{MAX_XATTR_BYTES, MAX_XATTR_NAME_BYTES, MAX_XATTRS};
use layer_unpack::tree::EntryPath;
use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use crate::support::first;

/// Asserts that the first archive is taken and the second exceeds a limit.
fn assert_limit(what: &str, at: Tar, over: Tar) {
    first(at).unwrap_or_else(|error| panic!("{what}: {error}"));
    let error = first(over).unwrap_err();
    assert!(matches!(error.fault(), ArchiveError::Limit { .. }), "{what}: {error}");
    assert!(error.to_string().contains(what), "{what}: {error}");
}

#[test]
fn paths_and_links_have_a_length() {
    let text = |bytes: usize| vec![b'p'; bytes];
    let pax = |key: &'static str, bytes| {
        move |kind| Tar::default().pax(&[(key, &text(bytes))]).entry(kind, "a", "b", b"")
    };
    let (at, over) = (MAX_PATH_BYTES, MAX_PATH_BYTES + 1);
    let (file, link) = (EntryType::Regular, EntryType::Symlink);
    let path = |bytes| pax("path", bytes)(file);
    assert_limit("length of its path", path(at), path(over));
    let target = |bytes| pax("linkpath", bytes)(link);
    assert_limit("length of its link", target(at), target(over));
    let name = |bytes| Tar::default().long_name(text(bytes)).file("a", "");
    assert_limit("a long name", name(at), name(over));
    let target = |bytes| Tar::default().long_link(text(bytes)).symlink("a", "b");
    assert_limit("a long name", target(at), target(over));
    // A sparse file's own name is one too.
    let records = |bytes| {
        let size = ("GNU.sparse.size", &b"0"[..]);
        Tar::default().pax(&[size, ("GNU.sparse.name", &text(bytes))]).file("a", "")
    };
    assert_limit("length of its path", records(at), records(over));

    for (bytes, depth, is_taken) in
        [(255, 1, true), (256, 1, false), (1, 512, true), (1, 513, false)]
    {
        let path = vec![text(bytes); depth].join(&b'/');
        assert_eq!(EntryPath::parse(&path).is_ok(), is_taken, "{bytes} {depth}");
    }
}

#[test]
fn records_have_a_size() {
    let padded = |bytes: u64| {
        let value = vec![b'c'; usize::try_from(bytes).unwrap()];
        Tar::default().pax(&[("comment", &value)]).file("a", "")
    };
    let frame = "1048576 comment=\n".len() as u64;
    let at = MAX_PAX_BYTES - frame;
    assert_limit("an extended header", padded(at), padded(at + 1));
    // Nothing of it is read, whatever size is claimed.
    let claimed = |kind| {
        let size = |header: &mut Header| header.set_size(u64::MAX / 2);
        Tar::default().entry_with(kind, "a", "", b"", size)
    };
    for kind in [
        EntryType::XHeader,
        EntryType::XGlobalHeader,
        EntryType::GNULongName,
        EntryType::GNULongLink,
    ] {
        let error = first(claimed(kind)).unwrap_err();
        assert!(matches!(error.fault(), ArchiveError::Limit { .. }), "{kind:?}: {error}");
    }
    let global = |bytes: u64| {
        let value = vec![b'c'; usize::try_from(bytes).unwrap()];
        Tar::default().global_pax(&[("comment", &value)]).file("a", "")
    };
    assert_limit("a global header", global(at), global(at + 1));
}

#[test]
fn attributes_have_a_number_and_a_size() {
    let with = |names: Vec<String>, value: &[u8]| {
        let records: Vec<_> = names.iter().map(|name| (&name[..], value)).collect();
        Tar::default().pax(&records).file("a", "")
    };
    let named = |name: String| format!("SCHILY.xattr.{name}");
    let many = |count| (0..count).map(|at| named(format!("user.{at}"))).collect();
    let number = |count| with(many(count), b"");
    assert_limit("number of extended attributes", number(MAX_XATTRS), number(MAX_XATTRS + 1));
    let name = |bytes| vec![named("n".repeat(bytes))];
    assert_limit(
        "length of an extended attribute's name",
        with(name(MAX_XATTR_NAME_BYTES), b""),
        with(name(MAX_XATTR_NAME_BYTES + 1), b""),
    );
    let value = |bytes| with(name(1), &vec![b'v'; bytes]);
    assert_limit(
        "size of an extended attribute",
        value(MAX_XATTR_BYTES),
        value(MAX_XATTR_BYTES + 1),
    );
}

#[test]
fn entries_are_counted_with_what_precedes_them() {
    let bytes = Tar::default().pax(&[("gid", b"1")]).file("a", "").file("b", "").bytes();
    let read = |max_entries| {
        let mut archive = Archive::new(&bytes[..], max_entries);
        archive.next_entry()?;
        archive.next_entry()
    };
    assert!(read(3).unwrap().is_some());
    assert!(matches!(read(2), Err(ArchiveError::Limit { .. })));
}

#[test]
fn devices_have_numbers_that_linux_has() {
    let device = |major, minor| {
        Tar::default().entry_with(EntryType::Char, "a", "", b"", |header| {
            header.set_device_major(major).unwrap();
            header.set_device_minor(minor).unwrap();
        })
    };
    let largest = first(device(4095, 1_048_575)).unwrap();
    assert_eq!(largest.kind, EntryKind::CharacterDevice(4095, 1_048_575));
    // Cut to what Linux has, this would be a whiteout.
    for (major, minor) in [(4096, 0), (0, 1_048_576)] {
        let refused = first(device(major, minor));
        let refused = refused.unwrap_err().to_string();
        assert_eq!(
            refused,
            "entry 1 of the archive, \"a\": its device has numbers that Linux does not have"
        );
    }
}
