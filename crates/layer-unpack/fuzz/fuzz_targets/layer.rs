//! Invariant: any archive is unpacked or refused, and nothing outside of its directory is made,
//! changed or removed.
#![cfg_attr(fuzzing, no_main)]

use std::fs;

use layer_unpack::{blob::Expected, caller::CallerGuard};
use oci_image::digest::Digest;

fuzzing::target!(|bytes: &[u8]| {
    // The sums of headers are made to hold, or hardly any input would get beyond the first.
    let mut archive = bytes.to_vec();
    for block in archive.chunks_exact_mut(512) {
        let mut header = tar::Header::from_byte_slice(block).clone();
        if header.as_ustar().is_some() || header.as_gnu().is_some() {
            header.set_cksum();
            block.copy_from_slice(header.as_bytes());
        }
    }
    let directory = tempfile::tempdir_in("/dev/shm").expect("a tmpfs");
    let root = directory.path().join("layer");
    fs::create_dir(&root).expect("a directory");
    fs::write(directory.path().join("outside"), "untouched").expect("a file");
    let digest = digest_of(&archive);
    let expected = Expected { digest: digest.clone(), size: archive.len() as u64 };
    let _ = layer_unpack::unpack(
        [bytes::Bytes::from(archive)].into_iter(),
        &expected,
        None,
        &digest,
        fs::File::open(&root).expect("a directory").into(),
        &CallerGuard::default().watch(),
    );
    assert!(fs::read(directory.path().join("outside")).expect("the file") == b"untouched");
    assert!(fs::read_dir(directory.path()).expect("the directory").count() == 2);
});

fn digest_of(bytes: &[u8]) -> Digest {
    let zero = Digest::parse(&format!("sha256:{}", "0".repeat(64))).expect("a digest");
    let mut hasher = zero.hasher();
    hasher.update(bytes);
    hasher.finish()
}
