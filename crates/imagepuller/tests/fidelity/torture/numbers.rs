//! Modes, owners, times: what every file has.

use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use super::{plain, with};

/// The layer at the bottom, with an entry for the root.
pub fn numbers() -> Vec<u8> {
    let tar = Tar::default()
        .pax(&[
            ("mtime", b"1500000000.000000001"),
            ("uid", b"5"),
            ("gid", b"6"),
        ])
        .entry_with(EntryType::Directory, "./", "", b"", with(0o711, 0, 0))
        .entry_with(
            EntryType::Directory,
            "modes",
            "",
            b"",
            with(0o1777, 1, 1_600_000_001),
        )
        .entry_with(
            EntryType::Regular,
            "modes/uid",
            "",
            b"x",
            with(0o4755, 1000, 1),
        )
        .entry_with(
            EntryType::Regular,
            "modes/gid",
            "",
            b"x",
            with(0o2755, 1000, 2),
        )
        .entry_with(
            EntryType::Regular,
            "modes/sticky",
            "",
            b"x",
            with(0o1644, 1000, 3),
        )
        .entry_with(EntryType::Regular, "modes/none", "", b"x", with(0, 1000, 4))
        .entry_with(
            EntryType::Directory,
            "modes/dir-all",
            "",
            b"",
            with(0o7777, 1000, 5),
        )
        .entry_with(
            EntryType::Regular,
            "modes/dir-all/below",
            "",
            b"x",
            with(0o644, 0, 6),
        )
        .entry_with(
            EntryType::Directory,
            "modes/dir-none",
            "",
            b"",
            with(0, 1000, 7),
        )
        .entry_with(
            EntryType::Regular,
            "modes/dir-none/below",
            "",
            b"x",
            with(0o600, 0, 8),
        )
        .entry_with(
            EntryType::Directory,
            "modes/dir-gid",
            "",
            b"",
            with(0o2775, 50, 9),
        )
        .entry_with(
            EntryType::Regular,
            "modes/dir-gid/below",
            "",
            b"x",
            with(0o644, 0, 10),
        )
        .entry_with(
            EntryType::Directory,
            "modes/dir-gid/dir",
            "",
            b"",
            with(0o755, 0, 11),
        )
        // Bits of the kind belong into the type, but some builders write the whole of `st_mode`.
        .entry_with(
            EntryType::Regular,
            "modes/kind",
            "",
            b"x",
            with(0o100_640, 0, 12),
        )
        .entry_with(
            EntryType::Regular,
            "modes/linked",
            "",
            b"x",
            with(0o4750, 1000, 1),
        )
        .entry_with(
            EntryType::Link,
            "modes/linked-otherwise",
            "modes/linked",
            b"",
            with(0o640, 2000, 77),
        )
        .entry_with(
            EntryType::Link,
            "modes/uid-again",
            "modes/uid",
            b"",
            with(0o4755, 1000, 1),
        )
        .entry_with(
            EntryType::Link,
            "modes/dir-gid/gid-again",
            "modes/gid",
            b"",
            with(0o2755, 1000, 2),
        )
        .entry_with(EntryType::Fifo, "modes/pipe", "", b"", with(0o2640, 7, 13))
        .entry_with(EntryType::Directory, "owners", "", b"", plain);
    let tar = [
        65_534u64,
        2_097_151,
        2_097_152,
        2_147_483_647,
        2_147_483_648,
        4_294_967_294,
    ]
    .into_iter()
    .fold(tar, |tar, owner| {
        let text = owner.to_string();
        let (name, number) = (format!("owners/{owner}"), text.as_bytes());
        let link = format!("owners/link-{owner}");
        tar.pax(&[("uid", number), ("gid", number)])
            .entry_with(EntryType::Regular, name, "", b"x", plain)
            .pax(&[("uid", number), ("gid", number)])
            .entry_with(EntryType::Symlink, link, "nowhere", b"", plain)
    });
    let large = |header: &mut Header| {
        header.as_old_mut().uid = *b"\x80\0\0\0\xff\xff\xff\xfe";
        header.as_old_mut().gid = *b"\x80\0\0\0\x80\0\0\0";
        header.as_old_mut().mtime = *b"\x80\0\0\0\0\0\0\x01\x2a\x05\xf2\0";
    };
    let tar = tar
        .entry_with(EntryType::Regular, "owners/base-256", "", b"x", large)
        .entry_with(EntryType::Directory, "times", "", b"", plain);
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
            .entry_with(
                EntryType::Regular,
                format!("times/{name}-dir/later"),
                "",
                b"x",
                plain,
            )
            .pax(&time)
            .symlink(format!("times/{name}-link"), "nowhere")
    })
    .entry_with(EntryType::Regular, "times/negative", "", b"x", |header| {
        header.as_old_mut().mtime = [0xff; 12];
    })
    .bytes()
}
