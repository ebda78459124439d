//! Cases about the gzip stream: its header, its blocks, its end.

use crate::hostile_disks::image::{Case, INFLATE, Kind, image, padded, placed, refused};
use crate::hostile_disks::stream::{
    Bits, FCOMMENT, FEXTRA, FNAME, FTEXT, Member, compressed, fixed, stored, stored_block,
};

/// Gzip headers.
pub fn headers(kind: Kind) -> Vec<Case> {
    let good = || Member::stored(kind.document);
    let legal = |name, member: Member| placed(name, kind, &member.bytes(), kind.document);
    let bad = |name, member: Member| refused(name, kind, &member.bytes(), INFLATE);
    let name_of = |length| [vec![b'n'; length], vec![0]].concat();
    let every = [&b"\x04\0abcdname\0comment\0"[..]].concat();
    vec![
        legal("name", good().with(FNAME, *b"initdata.toml\0")),
        legal("name and comment", good().with(FNAME | FCOMMENT, *b"n\0c\0")).in_guests(),
        legal("said to be text", good().with(FTEXT, *b"")),
        legal("extra field", good().with(FEXTRA, *b"\x04\0abcd")),
        legal("header checksum", good().header_checksum(false)),
        legal(
            "every field and a checksum",
            good().with(FTEXT | FEXTRA | FNAME | FCOMMENT, every).header_checksum(false),
        ),
        legal("name of 60000 bytes", good().with(FNAME, name_of(60_000))),
        bad("name of a million bytes", good().with(FNAME, name_of(1_000_000))),
        bad("name without an end", good().with(FNAME, vec![b'n'; 64])),
        bad("extra field longer than the stream", good().with(FEXTRA, *b"\xff\xffabcd")),
        bad("extra field that swallows the blocks", good().with(FEXTRA, *b"\x20\0abcd")),
        bad("wrong header checksum", good().header_checksum(true)).in_guests(),
        bad("announced header checksum missing", good().with(2, *b"")),
        bad("reserved flag 0x20", good().with(0x20, *b"")),
        bad("reserved flag 0x40", good().with(0x40, *b"")),
        bad("reserved flag 0x80", good().with(0x80, *b"")),
        bad("all flags", good().with(0xff, *b"")),
        bad("method 0", Member { method: 0, ..good() }),
        bad("method 7", Member { method: 7, ..good() }),
        refused("no gzip", kind, kind.document, INFLATE).in_guests(),
        refused("zeroes", kind, &[0; 64], INFLATE),
        refused("zlib", kind, &[&b"\x78\x01"[..], &stored(kind.document)].concat(), INFLATE),
        refused("bare deflate", kind, &stored(kind.document), INFLATE),
        refused(
            "zstd",
            kind,
            b"\x28\xb5\x2f\xfd\x04\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            INFLATE,
        ),
        refused("half a magic number", kind, &[&b"\x1f"[..], &good().bytes()].concat(), INFLATE),
    ]
}

/// Deflate blocks.
pub fn blocks(kind: Kind) -> Vec<Case> {
    let member = |deflate| Member::new(kind.document, deflate).bytes();
    let legal = |name, deflate| placed(name, kind, &member(deflate), kind.document);
    let bad = |name, deflate| refused(name, kind, &member(deflate), INFLATE);
    let bits = || Bits::default().block(true, 1);
    let mut wrong_complement = stored(kind.document);
    wrong_complement[3] ^= 1;
    let several: Vec<u8> = kind
        .document
        .iter()
        .flat_map(|byte| stored_block(&[*byte], false))
        .chain(stored_block(b"", true))
        .collect();
    let dynamic = compressed(&padded(kind.document, 20_000));
    assert_eq!(dynamic[0] >> 1 & 3, 2, "the compressor chose a dynamic block");
    vec![
        legal("fixed block", fixed(kind.document)).in_guests(),
        placed(
            "dynamic blocks",
            kind,
            &Member::new(&padded(kind.document, 20_000), dynamic).bytes(),
            &padded(kind.document, 20_000),
        ),
        legal("a stored block for each byte", several),
        bad("wrong complement of a stored length", wrong_complement).in_guests(),
        bad("block type 3", Bits::default().block(true, 3).number(0, 24).bytes()),
        bad(
            "distance before the start",
            bits().fixed(97).fixed(257).fixed_distance(4).number(0, 8).fixed(256).bytes(),
        ),
        bad(
            "distance symbol 30",
            bits().fixed(97).fixed(257).fixed_distance(30).fixed(256).bytes(),
        ),
        bad("length symbol 286", bits().fixed(97).fixed(286).fixed_distance(0).fixed(256).bytes()),
        bad("literal symbol 287", bits().fixed(287).fixed(256).bytes()),
        bad(
            "dynamic: 288 literals",
            Bits::default().dynamic(288, 1, &[1; 19]).number(0, 32).bytes(),
        ),
        bad(
            "dynamic: 32 distances",
            Bits::default().dynamic(257, 32, &[0, 0, 0, 1, 1]).number(0, 32).bytes(),
        ),
        bad(
            "dynamic: too many short codes",
            Bits::default().dynamic(257, 1, &[1; 19]).number(0, 32).bytes(),
        ),
        bad(
            "dynamic: no codes at all",
            Bits::default().dynamic(257, 1, &[0; 4]).number(0, 32).bytes(),
        ),
        bad(
            "dynamic: repeats what is not there",
            Bits::default().dynamic(257, 1, &[1, 1, 0, 0]).number(0, 32).bytes(),
        ),
        bad("dynamic: all lengths zero, no end", {
            // Symbol 18, the only code with 0, twice: 138 zeroes each.
            Bits::default()
                .dynamic(257, 1, &[0, 0, 1, 1])
                .number(1, 1)
                .number(127, 7)
                .number(1, 1)
                .number(109, 7)
                .number(0, 32)
                .bytes()
        }),
        bad("no last block", stored_block(kind.document, false)),
        refused(
            "nothing between header and checksum",
            kind,
            &member(Vec::new()),
            "the shortest gzip stream has 20 bytes",
        ),
    ]
}

/// Checksums, and what stands after the member.
pub fn ends(kind: Kind) -> Vec<Case> {
    let good = Member::stored(kind.document);
    let bytes = good.bytes();
    let with = |change: fn(&mut Member)| {
        let mut member = Member::stored(kind.document);
        change(&mut member);
        member.bytes()
    };
    let longer = |tail: &[u8]| [&bytes[..], tail].concat();
    let trailing = "bytes before the length in the header";
    let mut outside = image(kind.magic, bytes.len() as u64, &bytes);
    outside.extend([0xaa; 4096]);
    let mut padding = image(kind.magic, bytes.len() as u64, &bytes);
    if let Some(last) = padding.last_mut() {
        *last = 0xff;
    }
    let then = |name, image| Case { image, ..placed(name, kind, &bytes, kind.document) };
    vec![
        refused("wrong checksum", kind, &with(|m| m.crc ^= 1), INFLATE).in_guests(),
        refused("wrong size", kind, &with(|m| m.size ^= 1), INFLATE),
        refused("size 2^32 - 1", kind, &with(|m| m.size = u32::MAX), INFLATE),
        refused("size 0", kind, &with(|m| m.size = 0), INFLATE),
        refused("checksum of another document", kind, &with(|m| m.crc = 0), INFLATE),
        refused("cut before the checksum", kind, &bytes[..bytes.len() - 8], INFLATE),
        refused("cut in the checksum", kind, &bytes[..bytes.len() - 3], INFLATE).in_guests(),
        refused("cut in the middle", kind, &bytes[..bytes.len() / 2], INFLATE),
        refused("two members", kind, &longer(&bytes), trailing).in_guests(),
        refused("an empty second member", kind, &longer(&Member::stored(b"").bytes()), trailing),
        refused(
            "an empty first member",
            kind,
            &[Member::stored(b"").bytes(), bytes.clone()].concat(),
            trailing,
        ),
        refused("a zero behind the member", kind, &longer(&[0]), trailing),
        refused("garbage behind the member", kind, &longer(b"uu7Hq-content-of-a-disk"), trailing),
        then("garbage behind the length", outside).in_guests(),
        then("padding that is not zero", padding),
    ]
}
