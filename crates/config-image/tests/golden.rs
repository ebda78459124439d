//! Images that were written once and must be readable forever, by us and by others.

use std::io::Write;
use std::process::{Command, Stdio};

use config_image::{Magic, decode, encode};

/// Kata's own sample (`src/agent/testdata/initdata.img`), rebuilt from its description: Go's gzip
/// writer, two deflate blocks, no name.
const KATA_GO: &[u8] = include_bytes!("data/kata-go-initdata.img");
/// As Kata's Rust runtime writes it: best compression, gzip header with name and comment.
const KATA_RUST: &[u8] = include_bytes!("data/kata-rs-initdata.img");
/// Written by [`encode`] of the first release.
const OURS: &[u8] = include_bytes!("data/imagepuller.img");
/// What a runtime without a document attaches: a gzip stream of nothing.
const EMPTY: &[u8] = include_bytes!("data/empty-imagepuller.img");

const INITDATA: &str =
    "version = \"0.1.0\"\nalgorithm = \"sha384\"\n\n[data]\n\"aa.toml\" = \"x\"\n";
const DOCUMENT: &str =
    "[registries.\"registry.corp.\"]\nusername = \"puller\"\npassword = \"example\"\n";

#[test]
fn every_golden_image_decodes() {
    let images = [
        ("kata go", KATA_GO, Magic::INITDATA, "some content", 36),
        ("kata rust", KATA_RUST, Magic::INITDATA, INITDATA, 101),
        ("ours", OURS, Magic::IMAGEPULLER, DOCUMENT, 83),
        ("empty", EMPTY, Magic::IMAGEPULLER, "", 20),
    ];
    for (name, image, magic, document, gzip_len) in images {
        let decoded = decode(image, magic).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(decoded.document.as_slice(), document.as_bytes(), "{name}");
        assert_eq!(decoded.gzip_len, gzip_len, "{name}");
        assert_eq!(decoded.image_len(), image.len(), "{name}");
    }
}

#[test]
fn kata_vector_is_the_described_one() {
    assert_eq!(KATA_GO.len(), 512);
    assert_eq!(&KATA_GO[..16], b"initdata\x24\0\0\0\0\0\0\0");
    assert_eq!(&KATA_GO[16..26], b"\x1f\x8b\x08\0\0\0\0\0\0\xff", "no time, OS unknown");
    assert!(KATA_GO[16 + 36..].iter().all(|byte| *byte == 0));
}

/// An independent reader, written from `docs/format.md` alone, must agree with what [`encode`]
/// writes.
#[test]
fn python_agrees() {
    let reader = "\
import gzip, struct, sys
image = sys.stdin.buffer.read()
length = struct.unpack_from('<8xQ', image)[0]
assert len(image) % 512 == 0 and not any(image[16 + length:])
sys.stdout.buffer.write(image[:8] + gzip.decompress(image[16:16 + length]))";
    for document in ["", DOCUMENT, &DOCUMENT.repeat(10_000)] {
        let image = encode(Magic::IMAGEPULLER, document.as_bytes()).unwrap();
        let mut python = Command::new("python3")
            .args(["-c", reader])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is needed to cross-check the format");
        let mut input = python.stdin.take().unwrap();
        input.write_all(&image).unwrap();
        drop(input);
        let output = python.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, [b"imgpullr", document.as_bytes()].concat());
    }
}
