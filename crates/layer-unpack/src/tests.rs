//! Hostile and honest archives, unpacked into a real directory.

use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use proptest::prelude::*;
use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use super::blob::Expected;
use super::caller::CallerGuard;
use super::*;

/// What the tests do with an archive.
trait Unpack {
    /// Unpacks below `DIR/layer`, so that `DIR` is outside.
    fn unpack(self) -> (tempfile::TempDir, Result<Unpacked, LayerError>);
}

impl Unpack for Tar {
    fn unpack(self) -> (tempfile::TempDir, Result<Unpacked, LayerError>) {
        let bytes = self.bytes();
        unpack_blob(&bytes, &bytes)
    }
}

fn digest_of(bytes: &[u8]) -> Digest {
    let mut hasher = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap().hasher();
    hasher.update(bytes);
    hasher.finish()
}

/// What a manifest says of these bytes.
fn expected(bytes: &[u8]) -> Expected {
    Expected { digest: digest_of(bytes), size: bytes.len() as u64 }
}

/// Unpacks into a directory for somebody who waits.
fn unpack_into(
    directory: &Path,
    source: impl Iterator<Item = Bytes>,
    expected: &Expected,
    key: Option<&LayerKey>,
    diff_id: &Digest,
) -> Result<Unpacked, LayerError> {
    let root = fs::File::open(directory).unwrap().into();
    let waiting = CallerGuard::default();
    unpack(source, expected, key, diff_id, root, &waiting.watch())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Bytes that no compression makes smaller.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..bytes).map(|_| byte()).collect()
}

/// Asserts what a value is, and shows it where it is something else.
macro_rules! assert_is {
    ($value:expr, $pattern:pat) => {
        let value = &$value;
        assert!(matches!(value, $pattern), "{value:?}");
    };
}

mod decryption;
mod filling;
mod limits;

/// As a transfer gives them: cut anywhere.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = Bytes> {
    bytes.chunks(1000).map(Bytes::copy_from_slice)
}

fn unpack_blob(blob: &[u8], plain: &[u8]) -> (tempfile::TempDir, Result<Unpacked, LayerError>) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("layer");
    fs::create_dir(&root).unwrap();
    fs::write(directory.path().join("outside"), "untouched").unwrap();
    let result = unpack_into(&root, chunks(blob), &expected(blob), None, &digest_of(plain));
    let outside = fs::read(directory.path().join("outside"));
    assert_eq!(outside.unwrap(), b"untouched");
    let mut names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["layer", "outside"], "something was made outside of the layer");
    (directory, result)
}

fn refusal(tar: Tar) -> String {
    let (_directory, result) = tar.unpack();
    let error = result.unwrap_err();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(256);
    rustix::fs::lgetxattr(path, name, rustix::buffer::spare_capacity(&mut value)).ok()?;
    Some(value)
}

#[test]
fn privileged_nothing_leaves_the_layer() {
    vm_harness::needs_root!();
    for (tar, expected) in [
        (Tar::default().file("../outside", "x"), ".."),
        (Tar::default().file("a/../../outside", "x"), ".."),
        (Tar::default().directory(".."), ".."),
        (Tar::default().hard_link("link", "../outside"), "leads out of the layer"),
        (Tar::default().symlink("up", "..").hard_link("link", "up/outside"), "does not have"),
        (Tar::default().hard_link("link", "missing"), "does not have"),
        (Tar::default().directory("d").hard_link("link", "d"), "no file"),
        (Tar::default().file("a", "x").hard_link("a", "./a"), "to itself"),
        (Tar::default().symlink("loop", "loop").file("loop/a", "x"), "symbolic links"),
        (Tar::default().symlink("proc", "/proc/self/root").file("proc/outside", "x"), "directory"),
        (Tar::default().file("a", "x").file("a/b", "x"), "directory"),
        (Tar::default().file(".wh...", ""), "whiteout of nothing"),
        (Tar::default().file(".wh..", ""), "whiteout of nothing"),
        (Tar::default().file(".wh.", ""), "whiteout of nothing"),
        (Tar::default().file("a/../.wh.outside", ""), ".."),
        (Tar::default().entry(EntryType::Fifo, "/", "", b""), "root"),
    ] {
        let text = refusal(tar);
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn privileged_links_are_followed_only_inside() {
    vm_harness::needs_root!();
    let tar = Tar::default()
        .file("/absolute", "x")
        .directory("real")
        .symlink("up", "../../../real")
        .file("up/below", "x")
        .symlink("abs", "/real")
        .file("abs/other", "x")
        .symlink("last", "/outside")
        .file("last", "replaced")
        .symlink("dir", "/real")
        .directory("dir")
        .file("dir/own", "x");
    let (directory, result) = tar.unpack();
    assert_eq!(result.unwrap().entries, 11);
    let root = directory.path().join("layer");
    for path in ["absolute", "real/below", "real/other", "dir/own"] {
        assert!(root.join(path).is_file(), "{path}");
    }
    assert!(!root.join("real/own").exists());
    assert!(root.join("last").symlink_metadata().unwrap().is_file());
}

#[test]
fn privileged_everything_about_a_file_is_kept() {
    vm_harness::needs_root!();
    let capability =
        b"\x01\x00\x00\x02\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    let set_uid = |header: &mut Header| {
        header.set_mode(0o4755);
        header.set_uid(1000);
        header.set_gid(2_000_000);
    };
    let tar = Tar::default()
        .directory_with("./", |header| header.set_mode(0o711))
        .pax(&[
            ("mtime", b"1600000000.123456789"),
            ("SCHILY.xattr.security.capability", capability),
        ])
        .file_with("tool", b"content", set_uid)
        .hard_link_with("second", "tool", set_uid)
        .pax(&[("uid", b"3000000000"), ("mtime", b"1600000001.5")])
        .directory("late")
        .file("late/child", "x")
        .pax(&[("SCHILY.xattr.trusted.overlay.redirect", b"/etc"), ("path", "\u{e9}\n".as_bytes())])
        .file("short", "x")
        .entry_with(EntryType::Char, "null", "", b"", |header| {
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
            header.set_mode(0o666);
        })
        .entry(EntryType::Fifo, "pipe", "", b"")
        .pax(&[("mtime", b"1600000002.25")])
        .symlink("link", "tool");
    let (directory, result) = tar.unpack();
    result.unwrap();
    let root = directory.path().join("layer");
    let stat = |path: &str| root.join(path).symlink_metadata().unwrap();
    assert_eq!(stat("").mode() & 0o7777, 0o711);
    let tool = stat("tool");
    assert_eq!((tool.mode() & 0o7777, tool.uid(), tool.gid()), (0o4755, 1000, 2_000_000));
    assert_eq!((tool.mtime(), tool.mtime_nsec()), (1_600_000_000, 123_456_789));
    assert_eq!((tool.nlink(), tool.ino()), (2, stat("second").ino()));
    assert_eq!(xattr(&root.join("second"), "security.capability").unwrap()[..2], capability[..2]);
    let late = stat("late");
    let late = (late.uid(), late.mtime(), late.mtime_nsec());
    assert_eq!(late, (3_000_000_000, 1_600_000_001, 500_000_000));
    assert_eq!(xattr(&root.join("\u{e9}\n"), "trusted.overlay.redirect"), None);
    assert!(
        stat("null").file_type().is_char_device()
            && stat("null").rdev() == rustix::fs::makedev(1, 3)
    );
    assert_eq!(stat("null").mode() & 0o7777, 0o666);
    assert!(stat("pipe").file_type().is_fifo());
    assert_eq!((stat("link").mtime(), stat("link").mtime_nsec()), (1_600_000_002, 250_000_000));
    let target = fs::read_link(root.join("link")).unwrap();
    assert_eq!(target.as_os_str().as_bytes(), b"tool");
}

#[test]
fn privileged_whiteouts_become_overlayfs_ones() {
    vm_harness::needs_root!();
    let tar = Tar::default()
        .directory("opaque")
        .file("opaque/.wh..wh..opq", "")
        .file("opaque/new", "x")
        .file(".wh.gone", "")
        .file(".wh.replaced", "")
        .directory("replaced")
        .directory("first")
        .file(".wh.first", "")
        .file("kept", "x")
        .file(".wh.kept", "")
        .file(".wh..wh.plnk", "")
        .file("implied/.wh.below", "");
    let (directory, result) = tar.unpack();
    result.unwrap();
    let root = directory.path().join("layer");
    let is_whiteout = |path: &str| {
        let stat = root.join(path).symlink_metadata().unwrap();
        stat.file_type().is_char_device() && stat.rdev() == 0
    };
    for path in ["opaque", "replaced", "first"] {
        assert_eq!(
            xattr(&root.join(path), "trusted.overlay.opaque").as_deref(),
            Some(&b"y"[..]),
            "{path}"
        );
    }
    assert!(is_whiteout("gone") && is_whiteout("implied/below"));
    assert!(root.join("kept").is_file());
    assert!(!root.join(".wh..wh.plnk").exists());
    assert_eq!(xattr(&root.join("implied"), "trusted.overlay.opaque"), None);
}

#[test]
fn privileged_the_last_of_two_entries_holds() {
    vm_harness::needs_root!();
    let tar = Tar::default()
        .directory("a")
        .directory("a/b")
        .file("a/b/c", "x")
        .file("a", "now a file")
        .file("f", "old")
        .file("f", "new")
        .symlink("l", "a")
        .directory("l")
        .file("l/x", "x");
    let (directory, result) = tar.unpack();
    result.unwrap();
    let root = directory.path().join("layer");
    assert_eq!(fs::read(root.join("a")).unwrap(), b"now a file");
    assert_eq!(fs::read(root.join("f")).unwrap(), b"new");
    assert!(root.join("l/x").is_file());
}

/// Unpackers that skipped by one size and wrote by the other took content for headers
/// (CVE-2025-62518).
#[test]
fn privileged_an_entry_has_one_size() {
    vm_harness::needs_root!();
    let hidden = Tar::default().file("hidden", "").0;
    let tar = Tar::default().pax(&[("size", b"512")]);
    let tar = tar.file_with("shown", &hidden, |header| header.set_size(0));
    let (directory, result) = tar.unpack();
    assert_eq!(result.unwrap().entries, 2);
    let shown = fs::read(directory.path().join("layer/shown"));
    assert_eq!(shown.unwrap(), hidden);
    assert!(!directory.path().join("layer/hidden").exists());
}

#[test]
fn broken_archives_are_refused() {
    let with_size = |size| Tar::default().file_with("a", b"", |header| header.set_size(size));
    let mut bad_sum = Tar::default().file("a", "x");
    bad_sum.0[0] = b'b';
    let sparse = Tar::default().pax(&[("GNU.sparse.major", b"1")]).file("a", "x");
    for (tar, expected) in [
        (with_size(5000), "middle"),
        (with_size(u64::MAX), "middle"),
        (bad_sum, "the sum of its header"),
        (sparse, "sparse"),
        (Tar::default().entry(EntryType::new(b'V'), "volume", "", b""), "unknown type"),
        (
            // No content belongs there, so this is the next header.
            Tar::default().entry(EntryType::Symlink, "a", "b", b"content"),
            "the sum of its header",
        ),
        (
            Tar::default()
                .entry_with(EntryType::XHeader, "x", "", b"", |header| header.set_size(1 << 40)),
            "limit",
        ),
        (
            Tar::default()
                .entry_with(EntryType::GNULongName, "x", "", b"", |header| header.set_size(5000)),
            "limit",
        ),
        (Tar::default().pax(&[("path", &[b'a'; 5000])]).file("a", "x"), "limit"),
        (Tar::default().pax(&[("uid", b"4294967296")]).file("a", "x"), "Linux does not have"),
    ] {
        let text = refusal(tar);
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn every_compression_is_told_by_its_first_bytes() {
    let plain = Tar::default().bytes();
    let members = [gzip(&plain[..512]), gzip(&plain[512..])].concat();
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    // A frame that is to be skipped may come first (RFC 8878, "Skippable Frames").
    let skipped = [&b"\x5e\x2a\x4d\x18\x03\0\0\0abc"[..], &zstd].concat();
    for blob in [plain.clone(), gzip(&plain), members, zstd, skipped] {
        unpack_blob(&blob, &plain).1.unwrap();
    }
}

#[test]
fn digests_and_sizes_must_hold() {
    let plain = Tar::default().bytes();
    let other = unpack_blob(&plain, b"another").1;
    assert_is!(other, Err(LayerError::DiffId(_)));
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    let broken = [&zstd[..zstd.len() - 4], b"????"].concat();
    let other = unpack_blob(&broken, &plain).1;
    assert_is!(other, Err(LayerError::Compression(_)));
    // Whatever a wrong blob breaks on the way, the wrong blob is what is reported.
    let directory = tempfile::tempdir().unwrap();
    let size = zstd.len() as u64;
    for (received, size) in [
        (&broken[..], size),
        (&zstd[..9], size),
        (&zstd[..], size - 1),
        (&zstd[..], size + 1),
        (&[], size),
    ] {
        let expected = Expected { digest: digest_of(&zstd), size };
        let (path, plain) = (directory.path(), digest_of(&plain));
        let result = unpack_into(path, chunks(received), &expected, None, &plain);
        assert_is!(result, Err(LayerError::Blob(_)));
    }
}

/// What some builders leave blank or write where no other does, and Go's reader takes.
#[test]
fn privileged_careless_headers_are_taken() {
    vm_harness::needs_root!();
    let blank = |header: &mut Header| {
        let fields = header.as_old_mut();
        (fields.mode, fields.uid, fields.gid) = ([0; 8], [b' '; 8], [0; 8]);
        fields.mtime = [0; 12];
    };
    let old = |header: &mut Header| header.as_old_mut().mtime = [0xff; 12];
    let tar = Tar::default()
        .file_with("blank", b"", blank)
        .file_with("old", b"", old)
        .directory_with("d", |header| header.set_size(4096))
        .pax(&[("size", b"4096")])
        .directory("e")
        .file("d/f", "x");
    let (directory, result) = tar.unpack();
    result.unwrap();
    let stat = |path: &str| {
        let path = directory.path().join("layer").join(path);
        path.symlink_metadata().unwrap()
    };
    let blank = stat("blank");
    let blank = (blank.mode() & 0o7777, blank.uid(), blank.mtime());
    assert_eq!(blank, (0, 0, 0));
    assert_eq!(stat("old").mtime(), -1);
    assert!(stat("d/f").is_file() && stat("e").is_dir());
}

#[test]
fn privileged_a_whiteout_makes_room_for_a_directory_without_an_entry() {
    vm_harness::needs_root!();
    let tar = Tar::default()
        .file(".wh.d", "")
        .file("d/e/f", "x")
        .file("i/f", "x")
        .file(".wh.i", "")
        .file("j/f", "x")
        .directory("k/l")
        .symlink("to-j", "j")
        .file("to-j/m/f", "x");
    let (directory, result) = tar.unpack();
    let implied = result.unwrap().implied;
    let root = directory.path().join("layer");
    assert!(root.join("d/e/f").is_file());
    for (path, opaque) in [("d", Some(&b"y"[..])), ("d/e", None), ("i", Some(b"y"))] {
        let found = xattr(&root.join(path), "trusted.overlay.opaque");
        assert_eq!(found.as_deref(), opaque, "{path}");
    }
    let implied: Vec<_> =
        implied.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    assert_eq!(implied, ["", "d/e", "j", "j/m", "k"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any change of an archive is unpacked or refused, and never reaches outside of the layer.
    #[test]
    fn a_changed_archive_stays_inside(at in 0usize..2048, value: u8) {
        let tar = Tar::default().directory("d").file("d/f", "content");
        let tar = tar.symlink("l", "/d").hard_link("h", "d/f");
        let mut bytes = tar.bytes();
        // The sum is made to hold again, or hardly any change would be looked at.
        bytes[at] = value;
        let block = at / 512 * 512;
        let mut header = Header::from_byte_slice(&bytes[block..block + 512]).clone();
        if at % 512 < 345 {
            header.set_cksum();
            bytes[block..block + 512].copy_from_slice(header.as_bytes());
        }
        let _ = unpack_blob(&bytes, &bytes);
    }
}
