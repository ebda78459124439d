//! Invariant: of any archive the entries keep to the limits, and the map of a file with holes fits
//! its content exactly.
#![cfg_attr(fuzzing, no_main)]

use std::io::{self, Read};

use layer_unpack::archive::{Archive, EntryKind, MAX_PATH_BYTES};
use layer_unpack::pax::{MAX_XATTR_BYTES, MAX_XATTR_NAME_BYTES, MAX_XATTRS};
use layer_unpack::sparse::{MAX_REGIONS, MAX_SPARSE_BYTES};

fuzzing::target!(|bytes: &[u8]| {
    // The sums of headers are made to hold, or hardly any input would get beyond the first.
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(512) {
        let mut header = tar::Header::from_byte_slice(block).clone();
        if header.as_ustar().is_some() || header.as_gnu().is_some() {
            header.set_cksum();
            block.copy_from_slice(header.as_bytes());
        }
    }
    let mut archive = Archive::new(&bytes[..], 1000);
    while let Ok(Some(entry)) = archive.next_entry() {
        assert!(entry.path.len() <= MAX_PATH_BYTES && entry.mode <= 0o7777);
        assert!(entry.uid != Some(u32::MAX) && entry.gid != Some(u32::MAX));
        assert!(entry.mtime.nanoseconds < 1_000_000_000);
        assert!(entry.xattrs.len() <= MAX_XATTRS);
        for (name, value) in &entry.xattrs {
            assert!(name.len() <= MAX_XATTR_NAME_BYTES && value.len() <= MAX_XATTR_BYTES);
        }
        if let EntryKind::HardLink(target) | EntryKind::Symlink(target) = &entry.kind {
            assert!(target.len() <= MAX_PATH_BYTES);
        }
        let Some(holes) = &entry.holes else {
            continue;
        };
        assert!(entry.kind == EntryKind::File && holes.size() <= MAX_SPARSE_BYTES);
        assert!(holes.regions().len() <= MAX_REGIONS);
        let (mut end, mut sum) = (0, 0);
        for region in holes.regions() {
            assert!(region.offset >= end && region.length > 0);
            end = region.offset + region.length;
            sum += region.length;
        }
        assert!(end <= holes.size());
        let content = io::copy(&mut archive.by_ref().take(u64::MAX), &mut io::sink());
        assert!(content.is_err() || content.is_ok_and(|bytes| bytes == sum));
    }
});
