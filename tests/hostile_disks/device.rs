//! Rows about the disks as a whole: magics, several disks with one magic, and odd devices.

use crate::hostile_disks::image::{image, padded};
use crate::hostile_disks::row::{Disk, Expected, Row, Shape};
use crate::hostile_disks::table::{
    CONFIGURATION, DOCUMENT, IMGPULLR, INITDATA, configured, follows, good_configuration,
    good_initdata, measured, packed, row,
};

/// The first eight bytes.
pub fn magics() -> Vec<Row> {
    let configuration = || configured(CONFIGURATION.as_bytes());
    // A configuration under another magic, beside good initdata: not seen.
    let unseen = |name, magic: &[u8; 8]| {
        let disks = vec![good_initdata(), packed(magic, CONFIGURATION.as_bytes())];
        row(name, disks, measured(), Expected::Absent)
    };
    let moved = |by| [vec![0; by], good_configuration().bytes].concat();
    let behind = |name, by| {
        let mut bytes = moved(by);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        row(name, vec![good_initdata(), Disk::new(bytes)], measured(), Expected::Absent)
    };
    let only_magic = |magic: &[u8; 8]| Disk::new(image(magic, 0, b""));
    vec![
        row("both good", vec![good_initdata(), good_configuration()], measured(), configuration())
            .in_guests(),
        row("no disks", vec![], Expected::Absent, Expected::Absent),
        row("only initdata", vec![good_initdata()], measured(), Expected::Absent),
        row("only a configuration", vec![good_configuration()], Expected::Absent, configuration()),
        row(
            "magics swapped",
            vec![packed(INITDATA, CONFIGURATION.as_bytes()), packed(IMGPULLR, DOCUMENT.as_bytes())],
            Expected::refused(&["parse initdata", "version: the key is missing"]),
            follows(),
        )
        .in_guests(),
        row(
            "initdata under the configuration's magic",
            vec![packed(IMGPULLR, DOCUMENT.as_bytes())],
            Expected::Absent,
            configured(DOCUMENT.as_bytes()),
        ),
        row(
            "both magics, one after the other",
            vec![Disk::new([&b"initdataimgpullr"[..], &[0; 496]].concat())],
            Expected::refused(&["at most 1048576 bytes are accepted"]),
            follows(),
        ),
        row(
            "a disk of 0xff behind the magic",
            vec![Disk::new([&b"initdata"[..], &[0xff; 504]].concat())],
            Expected::refused(&["at most 1048576 bytes are accepted"]),
            follows(),
        ),
        row(
            "only the magic of initdata",
            vec![only_magic(INITDATA)],
            Expected::refused(&["the length at offset 8 is 0"]),
            follows(),
        ),
        row(
            "only the magic of the configuration",
            vec![only_magic(IMGPULLR)],
            Expected::Absent,
            Expected::refused(&["the length at offset 8 is 0"]),
        ),
        unseen("magic in capitals", b"IMGPULLR"),
        unseen("magic cut", b"imgpull\0"),
        unseen("magic with a blank", b"imgpull "),
        unseen("magic backwards", b"rllupgmi"),
        unseen("magic with a high bit", b"imgpull\xf2"),
        unseen("another magic", b"othrkind").in_guests(),
        unseen("magic of escape sequences", b"\x1b[2J\x1b[1m"),
        behind("magic at byte 1", 1),
        behind("magic at byte 8", 8),
        behind("magic in the second sector", 512).in_guests(),
        behind("magic at byte 4096", 4096),
        row(
            "zeroes",
            vec![good_initdata(), Disk::new(vec![0; 4096])],
            measured(),
            Expected::Absent,
        ),
        row(
            "ones",
            vec![good_initdata(), Disk::new(vec![0xff; 4096])],
            measured(),
            Expected::Absent,
        ),
    ]
}

/// Several disks with one magic.
pub fn several() -> Vec<Row> {
    let configuration = || configured(CONFIGURATION.as_bytes());
    let other_configuration = || packed(IMGPULLR, b"[registries]\n");
    let other_initdata = || {
        let text = DOCUMENT.replace("aa.toml", "bb.toml");
        packed(INITDATA, text.as_bytes())
    };
    let bad_configuration = || Disk::new(image(IMGPULLR, u64::MAX, b""));
    let bad_initdata = || Disk::new(image(INITDATA, 0, b""));
    let same = || Expected::refused(&["carry the same magic"]);
    let of_initdata = || Expected::refused(&["\"initdata\" disk", "carry the same magic"]);
    let of_configuration = || Expected::refused(&["\"imgpullr\" disk", "carry the same magic"]);
    vec![
        row(
            "two configurations, equal",
            vec![good_configuration(), good_initdata(), good_configuration()],
            measured(),
            of_configuration(),
        ),
        row(
            "two configurations, different",
            vec![good_initdata(), good_configuration(), other_configuration()],
            measured(),
            of_configuration(),
        )
        .in_guests(),
        row(
            "two configurations, one bad",
            vec![good_initdata(), good_configuration(), bad_configuration()],
            measured(),
            of_configuration(),
        ),
        row(
            "two configurations, one empty",
            vec![good_initdata(), good_configuration(), packed(IMGPULLR, b"")],
            measured(),
            of_configuration(),
        ),
        row(
            "two configurations, both bad",
            vec![good_initdata(), bad_configuration(), bad_configuration()],
            measured(),
            of_configuration(),
        ),
        row(
            "three configurations",
            vec![
                good_initdata(),
                good_configuration(),
                good_configuration(),
                other_configuration(),
            ],
            measured(),
            of_configuration(),
        ),
        row(
            "two initdatas, equal",
            vec![good_initdata(), good_initdata(), good_configuration()],
            of_initdata(),
            same(),
        ),
        row(
            "two initdatas, different",
            vec![good_initdata(), other_initdata(), good_configuration()],
            of_initdata(),
            same(),
        )
        .in_guests(),
        row(
            "two initdatas, one bad",
            vec![good_initdata(), bad_initdata(), good_configuration()],
            of_initdata(),
            same(),
        ),
        row(
            "three initdatas",
            vec![good_initdata(), other_initdata(), good_initdata()],
            of_initdata(),
            same(),
        ),
        row(
            "two of each",
            vec![good_initdata(), good_initdata(), good_configuration(), good_configuration()],
            of_initdata(),
            same(),
        ),
        row(
            "both bad",
            vec![bad_initdata(), bad_configuration()],
            Expected::refused(&["the length at offset 8 is 0"]),
            follows(),
        )
        .in_guests(),
        row(
            "as many block devices as are looked at",
            [
                vec![good_initdata(), good_configuration()],
                vec![Disk::new(Vec::new()).shape(Shape::NoNode); 1022],
            ]
            .concat(),
            measured(),
            configuration(),
        ),
        row(
            "one block device more than are looked at",
            [
                vec![good_initdata(), good_configuration()],
                vec![Disk::new(Vec::new()).shape(Shape::NoNode); 1023],
            ]
            .concat(),
            Expected::refused(&["more than 1024 block devices"]),
            Expected::refused(&["more than 1024 block devices"]),
        ),
        row(
            "sixty-four decoys",
            [vec![good_initdata(), good_configuration()], vec![Disk::new(vec![0x5a; 4096]); 64]]
                .concat(),
            measured(),
            configuration(),
        ),
    ]
}

/// The devices themselves.
pub fn devices() -> Vec<Row> {
    let configuration = || configured(CONFIGURATION.as_bytes());
    let odd = |shape| vec![good_initdata(), good_configuration().shape(shape)];
    let passed_over = |name, shape| row(name, odd(shape), measured(), Expected::Absent);
    // Passed over beside a good one of the same magic: not two.
    let beside = |name, shape| {
        let disks = [odd(shape), vec![good_configuration()]].concat();
        row(name, disks, measured(), configuration())
    };
    let cut = |length: usize| {
        let mut bytes = good_configuration().bytes;
        bytes.truncate(length);
        vec![good_initdata(), Disk::new(bytes)]
    };
    // Long enough that its last part is on pages of its own.
    let long = || packed(IMGPULLR, &padded(CONFIGURATION.as_bytes(), 60_000));
    let long_initdata = || packed(INITDATA, &padded(DOCUMENT.as_bytes(), 60_000));
    let unreadable = |name, disks, initdata, configuration| {
        row(name, disks, initdata, configuration).in_guests()
    };
    vec![
        row(
            "a disk of one sector",
            vec![Disk::new(good_configuration().bytes[..512].to_vec())],
            Expected::Absent,
            configuration(),
        ),
        row("a disk without sectors", cut(0), measured(), Expected::Absent),
        row("a disk of one byte", cut(1), measured(), Expected::Absent),
        row("a disk of eight bytes", cut(8), measured(), Expected::Absent),
        row("a disk of fifteen bytes", cut(15), measured(), Expected::Absent),
        row(
            "a disk of sixteen bytes",
            cut(16),
            measured(),
            Expected::refused(&["the disk ends after 16 bytes"]),
        ),
        row(
            "a disk that ends in the stream",
            cut(40),
            measured(),
            Expected::refused(&["the disk ends after 40 bytes"]),
        ),
        row(
            "a disk smaller than sysfs says",
            odd(Shape::Claims(1 << 40)),
            measured(),
            configuration(),
        ),
        row(
            "a disk larger than sysfs says",
            vec![good_initdata(), long().shape(Shape::Claims(1))],
            measured(),
            configured(&padded(CONFIGURATION.as_bytes(), 60_000)),
        ),
        row(
            "an image longer than the disk, but not than sysfs says",
            vec![
                good_initdata(),
                Disk::new(image(IMGPULLR, 100_000, b"")).shape(Shape::Claims(1 << 40)),
            ],
            measured(),
            Expected::refused(&["but the disk ends after 512 bytes"]),
        ),
        row("sysfs says no sectors", odd(Shape::Claims(0)), measured(), configuration()),
        passed_over("a partition", Shape::Partition),
        beside("a partition beside a disk", Shape::Partition),
        passed_over("a removable disk", Shape::Removable),
        beside("a removable disk beside a fixed one", Shape::Removable),
        passed_over("a hidden disk", Shape::Hidden),
        beside("a hidden disk beside its other path", Shape::Hidden),
        passed_over("a disk without hardware", Shape::Virtual),
        beside("a disk without hardware beside one with", Shape::Virtual),
        passed_over("no node", Shape::NoNode),
        beside("no node beside a good disk", Shape::NoNode),
        passed_over("a pipe in the node's place", Shape::Pipe),
        passed_over("a directory in the node's place", Shape::Directory),
        unreadable(
            "configuration: nothing can be read",
            odd(Shape::UnreadableFrom(0)),
            measured(),
            Expected::Absent,
        ),
        unreadable(
            "configuration: its end cannot be read",
            vec![good_initdata(), long().shape(Shape::UnreadableFrom(8192))],
            measured(),
            Expected::refused(&["read the gzip stream at offset 16: ", "os error 5"]),
        ),
        unreadable(
            "initdata: nothing can be read",
            vec![good_initdata().shape(Shape::UnreadableFrom(0)), good_configuration()],
            Expected::Absent,
            configuration(),
        ),
        unreadable(
            "initdata: its end cannot be read",
            vec![long_initdata().shape(Shape::UnreadableFrom(8192)), good_configuration()],
            Expected::refused(&["read the gzip stream at offset 16: ", "os error 5"]),
            follows(),
        ),
    ]
}
