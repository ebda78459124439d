//! Layers named by SHA-512, alone or together with SHA-256, and streams with something after their
//! end.
use std::fs;
use std::io::Write as _;

use layer_unpack::LayerError;
use vm_harness::archive::Tar;

use crate::support::{sha256, sha512, unpack_blob};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn privileged_each_digest_may_be_a_sha512() {
    vm_harness::needs_root!();
    let plain = Tar::default().file("a", "content").bytes();
    let blob = gzip(&plain);
    let digests = [sha256 as fn(&[u8]) -> _, sha512];
    for (blob_digest, diff_id) in digests.iter().flat_map(|blob| digests.map(|plain| (blob, plain)))
    {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a");
        let unpack = |of_blob: &[u8], of_plain: &[u8]| {
            let (digest, diff_id) = (blob_digest(of_blob), diff_id(of_plain));
            let result = unpack_blob(&blob, digest, &diff_id, directory.path());
            assert_eq!(fs::read(&file).unwrap(), b"content");
            fs::remove_file(&file).unwrap();
            result
        };
        unpack(&blob, &plain).unwrap();
        let other = unpack(&blob, b"another");
        assert!(matches!(other, Err(LayerError::DiffId(_))));
        let other = unpack(b"another", &plain);
        assert!(matches!(other, Err(LayerError::Blob(_))));
    }
}

/// Tapes and some builders pad to a block; gzip(1) takes zeros after the last member, and anything
/// else is refused.
#[test]
fn gzip_members_may_be_padded() {
    let plain = Tar::default().bytes();
    let members = [gzip(&plain[..100]), gzip(&plain[100..])].concat();
    let directory = tempfile::tempdir().unwrap();
    let unpack = |blob: &[u8]| unpack_blob(blob, sha256(blob), &sha256(&plain), directory.path());
    unpack(&members).unwrap();
    let padded = [&members[..], &[0; 700]].concat();
    unpack(&padded).unwrap();
    for rest in [&b"garbage"[..], b"\0\0garbage", b"\x1f\x8b"] {
        let blob = [&members[..], rest].concat();
        let result = unpack(&blob);
        assert!(matches!(result, Err(LayerError::Compression(_))), "{rest:?}: {result:?}");
    }
}
