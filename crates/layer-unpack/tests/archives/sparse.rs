//! Files with holes, in each form that GNU tar has had for them.
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use layer_unpack::ArchiveError;
use layer_unpack::sparse::{MAX_REGIONS, MAX_SPARSE_BYTES, Region};
use tar::{EntryType, Header};
use vm_harness::archive::Tar;

use crate::support::{first, unpacked};

/// Offset and length of each region, the size of the file, and its content without the holes.
type Holes<'a> = (&'a [(u64, u64)], u64, &'a [u8]);

const THREE: Holes = (&[(4096, 3), (8192, 2), (100_000, 1)], 1 << 20, b"abcdef");

/// In the header, and in blocks after it.
fn old(tar: Tar, name: &str, (regions, size, content): Holes) -> Tar {
    let field = |number: u64| format!("{number:011o}\0").into_bytes();
    let pair = |(offset, length): &(u64, u64)| [field(*offset), field(*length)].concat();
    let (inside, after) = regions.split_at(regions.len().min(4));
    let mut map = inside.iter().flat_map(pair).collect::<Vec<_>>();
    map.resize(4 * 24, 0);
    let mut tar = tar.entry_with(EntryType::GNUSparse, name, "", b"", |header| {
        let bytes = header.as_mut_bytes();
        bytes[257..265].copy_from_slice(b"ustar  \0");
        bytes[345..].fill(0);
        bytes[386..482].copy_from_slice(&map);
        bytes[482] = u8::from(!after.is_empty());
        bytes[483..495].copy_from_slice(&field(size));
        header.set_size(content.len() as u64);
    });
    let blocks = after.chunks(21);
    let last = blocks.len().saturating_sub(1);
    for (at, regions) in blocks.enumerate() {
        let mut block = regions.iter().flat_map(pair).collect::<Vec<_>>();
        block.resize(512, 0);
        block[504] = u8::from(at < last);
        tar.0.extend_from_slice(&block);
    }
    tar.0.extend_from_slice(content);
    tar.0.resize(tar.0.len().next_multiple_of(512), 0);
    tar
}

/// A record for each number.
fn pax_0_0(tar: Tar, name: &str, (regions, size, content): Holes) -> Tar {
    let mut records = vec![
        ("GNU.sparse.size", size.to_string()),
        ("GNU.sparse.numblocks", regions.len().to_string()),
    ];
    for (offset, length) in regions {
        records.push(("GNU.sparse.offset", offset.to_string()));
        records.push(("GNU.sparse.numbytes", length.to_string()));
    }
    let records: Vec<_> = records.iter().map(|(key, value)| (*key, value.as_bytes())).collect();
    tar.pax(&records).file(name, content)
}

/// One record for all numbers.
fn pax_0_1(tar: Tar, name: &str, (regions, size, content): Holes) -> Tar {
    let map: Vec<_> = regions.iter().map(|(offset, length)| format!("{offset},{length}")).collect();
    let records = [
        ("GNU.sparse.size", size.to_string()),
        ("GNU.sparse.numblocks", regions.len().to_string()),
        ("GNU.sparse.name", name.to_owned()),
        ("GNU.sparse.map", map.join(",")),
    ];
    let records = records.each_ref().map(|(key, value)| (*key, value.as_bytes()));
    tar.pax(&records).file("GNUSparseFile.0/x", content)
}

/// In front of the content.
fn pax_1_0(tar: Tar, name: &str, (regions, size, content): Holes) -> Tar {
    let numbers = regions.iter().flat_map(|(offset, length)| [*offset, *length]);
    let numbers = [regions.len() as u64].into_iter().chain(numbers);
    let map: String = numbers.map(|number| format!("{number}\n")).collect();
    pax_1_0_with(tar, name, map.as_bytes(), size, content)
}

fn pax_1_0_with(tar: Tar, name: &str, map: &[u8], size: u64, content: &[u8]) -> Tar {
    let mut stored = map.to_vec();
    stored.resize(map.len().next_multiple_of(512), 0);
    stored.extend_from_slice(content);
    let tar = tar.pax(&[
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", name.as_bytes()),
        ("GNU.sparse.realsize", size.to_string().as_bytes()),
    ]);
    tar.file("GNUSparseFile.0/x", stored)
}

type Form = fn(Tar, &str, Holes) -> Tar;

const FORMS: [(&str, Form); 4] =
    [("old", old), ("0.0", pax_0_0), ("0.1", pax_0_1), ("1.0", pax_1_0)];

#[test]
fn privileged_holes_stay_holes() {
    vm_harness::needs_root!();
    let many: Vec<_> = (0..100).map(|at| (at * 65_536, 4096)).collect();
    let many: Holes = (&many, 100 << 16, &[b'm'; 409_600]);
    let only_a_hole: Holes = (&[(1 << 20, 0)], 1 << 20, b"");
    let no_hole: Holes = (&[(0, 5)], 5, b"whole");
    for (form, write) in FORMS {
        let tar = [("three", THREE), ("many", many), ("hole", only_a_hole), ("whole", no_hole)]
            .into_iter()
            .fold(Tar::default(), |tar, (name, holes)| write(tar, name, holes));
        let layer = unpacked(tar.file("after", "x"));
        let file = |name: &str| fs::read(layer.root.join(name)).unwrap();
        let blocks = |name: &str| layer.root.join(name).metadata().unwrap().blocks();

        let mut three = vec![0; 1 << 20];
        three[4096..4099].copy_from_slice(b"abc");
        three[8192..8194].copy_from_slice(b"de");
        three[100_000] = b'f';
        assert!(file("three") == three, "{form}");
        assert_eq!(blocks("three"), 3 * 8, "{form}");
        assert_eq!(file("many").len(), 100 << 16, "{form}");
        assert!(file("many").chunks(1 << 16).all(|part| part[..4096] == [b'm'; 4096]), "{form}");
        assert_eq!(blocks("many"), 100 * 8, "{form}");
        assert!(file("hole") == vec![0; 1 << 20], "{form}");
        assert_eq!(blocks("hole"), 0, "{form}");
        assert_eq!(file("whole"), b"whole", "{form}");
        assert_eq!(file("after"), b"x", "{form}");
        assert_eq!(fs::read_dir(&layer.root).unwrap().count(), 5, "{form}");
    }
}

#[test]
fn a_map_must_fit_the_file_and_its_content() {
    let broken: [(&str, Holes, &str); 6] = [
        ("order", (&[(8, 1), (0, 1)], 10, b"ab"), "in a wrong order"),
        ("overlap", (&[(0, 2), (1, 1)], 10, b"abc"), "in a wrong order"),
        ("beyond the end", (&[(0, 1), (9, 2)], 10, b"abc"), "beyond the end"),
        ("overflow", (&[(8_589_934_591, 8_589_934_591)], 10, b"abc"), "beyond the end"),
        ("less content", (&[(0, 2)], 10, b"a"), "does not fit"),
        ("more content", (&[(0, 2)], 10, b"abc"), "does not fit"),
    ];
    for (form, write) in FORMS {
        for (what, holes, expected) in broken {
            let error = first(write(Tar::default(), "a", holes)).unwrap_err().to_string();
            assert!(error.contains(expected), "{form}, {what}: {error}");
        }
    }
}

#[test]
fn regions_and_sizes_have_limits() {
    let all =
        |count: usize| -> Vec<(u64, u64)> { (0..count as u64).map(|at| (2 * at, 1)).collect() };
    for (form, write) in FORMS {
        // The records of 0.0 and 0.1 have a limit of their own, and old blocks are counted whole.
        let at_limit = match form {
            "old" => 4 + (MAX_REGIONS - 4) / 21 * 21,
            "0.0" => 10_000,
            _ => MAX_REGIONS,
        };
        let content = vec![b'x'; at_limit];
        let regions = all(at_limit);
        let tar = write(Tar::default(), "a", (&regions, 1 << 20, &content));
        let found = first(tar).unwrap().holes.unwrap();
        assert_eq!(found.regions().len(), at_limit, "{form}");
        assert_eq!(found.regions()[1], Region { offset: 2, length: 1 });

        let (content, regions) = (vec![b'x'; MAX_REGIONS + 21], all(MAX_REGIONS + 21));
        let tar = write(Tar::default(), "a", (&regions, 1 << 20, &content));
        let error = first(tar).unwrap_err();
        assert!(matches!(error.fault(), ArchiveError::Limit { .. }), "{form}: {error}");

        let sized = |size| first(write(Tar::default(), "a", (&[(0, 1)], size, b"x")));
        if form != "old" {
            assert_eq!(sized(MAX_SPARSE_BYTES).unwrap().holes.unwrap().size(), MAX_SPARSE_BYTES);
            let error = sized(MAX_SPARSE_BYTES + 1).unwrap_err();
            assert!(error.to_string().contains("size of a file with holes"), "{form}: {error}");
        }
    }
}

#[test]
fn broken_maps_are_refused() {
    let in_front = |map: &[u8]| pax_1_0_with(Tar::default(), "a", map, 10, b"");
    let record = |key: &str, value: &[u8]| {
        let size = ("GNU.sparse.size", &b"10"[..]);
        Tar::default().pax(&[size, (key, value)]).file("a", "")
    };
    let offsets = |records: &[(&str, &[u8])]| Tar::default().pax(records).file("a", "x");
    let endless = |header: &mut Header| {
        header.as_mut_bytes()[257..265].copy_from_slice(b"ustar  \0");
        header.as_mut_bytes()[345..].fill(0);
        header.as_mut_bytes()[482] = 1;
    };
    let mut without_end = Tar::default().entry_with(EntryType::GNUSparse, "a", "", b"", endless);
    let mut block = [0; 512];
    block[504] = 1;
    without_end.0.extend_from_slice(&block.repeat(MAX_REGIONS / 21 + 2));
    for (tar, expected) in [
        (in_front(b"x\n"), "number that cannot be read"),
        (in_front(b"\n"), "number that cannot be read"),
        (in_front(b"-1\n"), "number that cannot be read"),
        (in_front(b"1\n99999999999999999999\n1\n"), "number that cannot be read"),
        (in_front(b"1\n000000000000000000000000\n1\n"), "number that cannot be read"),
        (in_front(b"2\n0\n1\n"), "number that cannot be read"),
        (in_front(&b"1".repeat(512)), "number that cannot be read"),
        (in_front(b"65537\n"), "limit"),
        (in_front(b""), "is cut off"),
        (in_front(b"300\n1\n0\n".repeat(64).as_slice()), "is cut off"),
        (record("GNU.sparse.major", b"2"), "unknown version"),
        (record("GNU.sparse.minor", b"1"), "unknown version"),
        (record("GNU.sparse.size", b"-1"), "number that cannot be read"),
        (record("GNU.sparse.map", b"0"), "number that cannot be read"),
        (record("GNU.sparse.map", b"0,x"), "number that cannot be read"),
        (record("GNU.sparse.numblocks", b"1"), "another number of regions"),
        (record("GNU.sparse.offset", b"0"), "another number of regions"),
        (record("GNU.sparse.numbytes", b"0"), "without an offset"),
        (record("GNU.sparse.future", b"0"), "unknown kind"),
        (offsets(&[("GNU.sparse.offset", b"0"), ("GNU.sparse.offset", b"0")]), "unknown kind"),
        (offsets(&[("GNU.sparse.map", b"0,1")]), "has no size"),
        (Tar::default().entry(EntryType::GNUSparse, "a", "", b""), "header of another form"),
        (
            Tar::default().pax(&[("GNU.sparse.size", b"0")]).directory("a"),
            "belongs to what is no file",
        ),
        (without_end, "number of regions"),
    ] {
        let error = first(tar).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}
