//! What is said about layers that other programs read in another way; and that what is refused at a
//! pull is refused here.

use bytes::Bytes;
use layer_unpack::archive::Oddity;
use layer_unpack::lint::{What, lint};
use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use crate::support::{sha256, unpack_blob};

fn remarks(archive: &[u8]) -> Vec<(Option<String>, What)> {
    // Cut anywhere, as a network does.
    let chunks: Vec<_> = archive.chunks(700).map(Bytes::copy_from_slice).collect();
    let (_, remarks) = lint(chunks.into_iter());
    let remarks = remarks.into_iter();
    remarks.map(|remark| (remark.path, remark.what)).collect()
}

fn one(path: &str, what: What) -> Vec<(Option<String>, What)> {
    vec![(Some(path.to_owned()), what)]
}

#[test]
fn an_ordinary_layer_has_no_remarks() {
    let archive = Tar::default()
        .directory("etc/")
        .file("etc/passwd", "root")
        .directory("etc/")
        .hard_link("etc/group", "etc/passwd")
        .symlink("lib", "usr/lib")
        .file("usr/lib/x", "")
        .directory("usr/lib/")
        .file("usr/.wh.old", "")
        .file(".wh..wh..opqx/a", "")
        .bytes();
    assert_eq!(remarks(&archive), []);
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut zipped, &archive).unwrap();
    assert_eq!(remarks(&zipped.finish().unwrap()), []);
    assert_eq!(remarks(&zstd::encode_all(&archive[..], 1).unwrap()), []);
}

#[test]
fn what_others_read_in_another_way_is_told() {
    let sized = |header: &mut Header| header.set_size(9);
    let device = |header: &mut Header| {
        header.set_device_major(0).unwrap();
        header.set_device_minor(0).unwrap();
    };
    let symlinked = Tar::default().symlink("lib", "usr/lib").file("lib/x", "");
    for (archive, path, what) in [
        (Tar::default().file("/a", ""), "/a", What::Absolute),
        (Tar::default().file("a", "").file("./a", ""), "./a", What::Again),
        (Tar::default().file("a/b", "").symlink("a", "b"), "a", What::Again),
        (symlinked, "lib/x", What::BelowLink("lib".to_owned())),
        (
            Tar::default().file("d/a", "").file("d/.wh.a", ""),
            "d/.wh.a",
            What::HidesOwn("a".to_owned()),
        ),
        (
            Tar::default().file("d/a", "").file("d/.wh..wh..opq", ""),
            "d/.wh..wh..opq",
            What::LateOpaque,
        ),
        (Tar::default().file(".wh..wh.plnk", ""), ".wh..wh.plnk", What::Aufs),
        (
            Tar::default().entry_with(EntryType::Char, "gone", "", b"", device),
            "gone",
            What::WhiteoutDevice,
        ),
        (
            Tar::default().entry_with(EntryType::Symlink, "l", "t", b"", sized),
            "l",
            What::Odd(Oddity::ClaimedSize(9)),
        ),
        (Tar::default().pax(&[("uid", b"-2")]).file("a", ""), "a", What::Odd(Oddity::Owner(-2))),
    ] {
        let found = remarks(&archive.bytes());
        assert_eq!(found, one(path, what.clone()));
        let text = what.to_string();
        assert!(!text.is_empty() && !text.ends_with('.'), "{text}");
    }
    let early = Tar::default().file("d/.wh..wh..opq", "").file("d/a", "");
    assert_eq!(remarks(&early.bytes()), []);
    let whole = Tar::default().file("last", "the end").0;
    let cut = remarks(&whole[..600]);
    assert_eq!(cut, [(None, What::Unpadded)]);
}

/// Each is refused by `unpack` too.
#[test]
fn privileged_what_is_refused_is_told() {
    vm_harness::needs_root!();
    for (archive, word) in [
        (Tar::default().file("a/../b", ""), "\"..\""),
        (Tar::default().hard_link("a", "b"), "hard link"),
        (Tar::default().hard_link("a", "b").file("b", ""), "hard link"),
        (Tar::default().file("d/.wh...", ""), "whiteout"),
        (Tar::default().entry(EntryType::new(b'Z'), "z", "", b""), "unknown type"),
    ] {
        let archive = archive.bytes();
        let found = remarks(&archive);
        let (_, what) = found.last().unwrap();
        assert!(what.is_refusal() && what.to_string().contains(word), "{what}");
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let digest = sha256(&archive);
        unpack_blob(&archive, digest.clone(), &digest, directory.path()).unwrap_err();
    }
    let mut broken = zstd::encode_all(&Tar::default().file("a", "x").bytes()[..], 1).unwrap();
    broken.truncate(20);
    assert!(remarks(&broken).last().unwrap().1.is_refusal());
}
