//! What real builders write and strict readers refuse: sizes where no content is, owners that Linux
//! does not have, sums of signed bytes, entries behind links, an end without padding.

use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use super::{plain, with};

/// The layer below [`odd`].
pub fn odd_lower() -> Vec<u8> {
    Tar::default()
        .directory("odd")
        .directory("odd/usr")
        .directory_with("odd/usr/bin", with(0o751, 4, 1_600_000_000))
        .file("odd/usr/bin/a", "lower")
        .file("odd/usr/bin/both", "lower")
        .bytes()
}

/// The layer; its last entry ends where its content ends.
pub fn odd() -> Vec<u8> {
    let sized = |header: &mut Header| {
        header.set_size(4711);
        header.set_device_major(1).unwrap();
        header.set_device_minor(3).unwrap();
    };
    let tar = Tar::default()
        .file("odd/file", "content")
        .entry_with(EntryType::Link, "odd/hard", "odd/file", b"", sized)
        .entry_with(EntryType::Symlink, "odd/link", "file", b"", sized)
        .entry_with(EntryType::Char, "odd/null", "", b"", sized)
        .entry_with(EntryType::Fifo, "odd/pipe", "", b"", sized)
        .entry_with(EntryType::Directory, "odd/sized", "", b"", sized)
        .pax(&[("size", b"4711")])
        .symlink("odd/link-by-record", "file")
        .entry_with(EntryType::Regular, b"odd/\xfe\xff", "", b"signed", plain);
    let tar = signed_sum(tar);
    let tar = [
        ("odd/left", "4294967295"),
        ("odd/minus-one", "-1"),
        ("odd/minus-two", "-2"),
        ("odd/smallest", "-2147483648"),
    ]
    .into_iter()
    .fold(tar, |tar, (name, id)| {
        let id = id.as_bytes();
        let directory = format!("{name}-directory");
        tar.pax(&[("uid", id), ("gid", id)])
            .file_with(name, b"x", with(0o4755, 0, 1))
            .pax(&[("uid", id), ("gid", id)])
            .directory_with(directory, with(0o750, 0, 1))
    });
    let negative = |header: &mut Header| header.as_old_mut().uid.fill(0xff);
    let mut bytes = tar
        .file_with("odd/base-256", b"x", negative)
        .symlink("odd/bin", "usr/bin")
        .file("odd/bin/x", "upper")
        .file("odd/bin/both", "upper")
        .symlink("odd/run", "/odd/nowhere/../there")
        .file("odd/run/y", "upper")
        .symlink("odd/up", "../../../../odd/above")
        .file("odd/up/z", "upper")
        .file("odd/unpadded", "the end")
        .0;
    bytes.truncate(bytes.len() - 512 + "the end".len());
    bytes
}

/// Sums the last header anew, as programs did for which bytes were signed.
fn signed_sum(mut tar: Tar) -> Tar {
    let at = tar.0.len() - 2 * 512;
    let header = &mut tar.0[at..at + 512];
    header[148..156].fill(b' ');
    let sum: i32 = header.iter().map(|&byte| i32::from(byte.cast_signed())).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    tar
}
