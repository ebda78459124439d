//! Modes, owners, times: what every file has.

use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use super::{plain, with};

/// The layer at the bottom, with an entry for the root.
pub fn numbers() -> Vec<u8> {
    let tar = Tar::default()
        .pax(&[("mtime", b"1500000000.000000001"), ("uid", b"5"), ("gid", b"6")])
        .directory_with("./", with(0o711, 0, 0))
        .directory_with("modes", with(0o1777, 1, 1_600_000_001))
        .file_with("modes/uid", "x", with(0o4755, 1000, 1))
        .file_with("modes/gid", "x", with(0o2755, 1000, 2))
        .file_with("modes/sticky", "x", with(0o1644, 1000, 3))
        .file_with("modes/none", "x", with(0, 1000, 4))
        .directory_with("modes/dir-all", with(0o7777, 1000, 5))
        .file_with("modes/dir-all/below", "x", with(0o644, 0, 6))
        .directory_with("modes/dir-none", with(0, 1000, 7))
        .file_with("modes/dir-none/below", "x", with(0o600, 0, 8))
        .directory_with("modes/dir-gid", with(0o2775, 50, 9))
        .file_with("modes/dir-gid/below", "x", with(0o644, 0, 10))
        .directory_with("modes/dir-gid/dir", with(0o755, 0, 11))
        // Bits of the kind belong into the type, but some builders write the whole of `st_mode`.
        .file_with("modes/kind", "x", with(0o100_640, 0, 12))
        .file_with("modes/linked", "x", with(0o4750, 1000, 1))
        .hard_link_with("modes/linked-otherwise", "modes/linked", with(0o640, 2000, 77))
        .hard_link_with("modes/uid-again", "modes/uid", with(0o4755, 1000, 1))
        .hard_link_with("modes/dir-gid/gid-again", "modes/gid", with(0o2755, 1000, 2))
        .entry_with(EntryType::Fifo, "modes/pipe", "", b"", with(0o2640, 7, 13))
        .directory_with("owners", plain);
    let tar = [65_534u64, 2_097_151, 2_097_152, 2_147_483_647, 2_147_483_648, 4_294_967_294]
        .into_iter()
        .fold(tar, |tar, owner| {
            let text = owner.to_string();
            let (name, number) = (format!("owners/{owner}"), text.as_bytes());
            let link = format!("owners/link-{owner}");
            tar.pax(&[("uid", number), ("gid", number)])
                .file_with(name, b"x", plain)
                .pax(&[("uid", number), ("gid", number)])
                .entry_with(EntryType::Symlink, link, "nowhere", b"", plain)
        });
    let large = |header: &mut Header| {
        header.as_old_mut().uid = *b"\x80\0\0\0\xff\xff\xff\xfe";
        header.as_old_mut().gid = *b"\x80\0\0\0\x80\0\0\0";
        header.as_old_mut().mtime = *b"\x80\0\0\0\0\0\0\x01\x2a\x05\xf2\0";
    };
    let tar = tar.file_with("owners/base-256", b"x", large).directory_with("times", plain);
    [
        ("ns", "1700000000.123456789"),
        ("coarse", "1700000000.5"),
        ("cut", "1700000000.12345678999"),
        ("epoch", "0"),
        ("before-1970", "-1.5"),
        ("just-before-1970", "-0.000000001"),
        ("1905", "-2050000000.25"),
        ("after-2038", "2200000000.75"),
        ("after-2106", "4400000000.999999999"),
        ("2200", "7258118400"),
    ]
    .into_iter()
    .fold(tar, |tar, (name, time)| {
        let time = [("mtime", time.as_bytes())];
        tar.pax(&time)
            .file(format!("times/{name}"), "x")
            .pax(&time)
            .directory(format!("times/{name}-dir"))
            .file_with(format!("times/{name}-dir/later"), b"x", plain)
            .pax(&time)
            .symlink(format!("times/{name}-link"), "nowhere")
    })
    .file_with("times/negative", b"x", |header| {
        header.as_old_mut().mtime = [0xff; 12];
    })
    .bytes()
}
