//! Layers that are too deep, too large or not waited for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::decryption::{Sealed, has_openssl};
use super::*;

/// A blob as it is, and encrypted with its key.
fn blobs(compressed: &[u8], archive: &[u8]) -> Vec<(Vec<u8>, Option<LayerKey>)> {
    let mut blobs = vec![(compressed.to_vec(), None)];
    if has_openssl() {
        let sealed = Sealed::new(compressed, archive);
        let key = sealed.key();
        blobs.push((sealed.ciphertext, Some(key)));
    }
    blobs
}

/// A layer of 160 KB once made directories 19,500 deep, each symbolic link leading as deep as the
/// last and then 500 more.
#[test]
fn privileged_links_do_not_lead_deeper_than_paths() {
    vm_harness::needs_root!();
    let step = vec!["d"; 400].join("/");
    let mut tar = Tar::default();
    let mut base = String::new();
    for hop in 0..8 {
        let path = format!("{base}{step}");
        let link = format!("l{hop}");
        tar = tar
            .pax(&[("path", format!("{path}/e").as_bytes())])
            .directory("x")
            .pax(&[("linkpath", path.as_bytes())])
            .symlink(&link, "x");
        base = format!("{link}/");
    }
    let (place, result) = tar.unpack();
    let error = result.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("more than 512 directories deep"), "{source}");
    let layer = place.path().join("layer");
    let mut at: OwnedFd = fs::File::open(layer).unwrap().into();
    let mut depth = 0;
    while let Ok(below) = directory::open(&at, b"d") {
        at = below;
        depth += 1;
    }
    // One entry beyond the limit may have been begun.
    assert!(depth <= 2 * 512, "{depth}");
}

/// The first bytes of a blob, and zeros for ever; somebody has to stop reading.
pub(super) struct Endless<'a> {
    start: &'a [u8],
    sent: usize,
    /// Dropped after a MiB.
    waiting: Option<CallerGuard>,
}

impl<'a> Endless<'a> {
    pub(super) fn new(start: &'a [u8], waiting: Option<CallerGuard>) -> Self {
        let sent = 0;
        Self { start, sent, waiting }
    }
}

impl Iterator for Endless<'_> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let start = Bytes::copy_from_slice(std::mem::take(&mut self.start));
        let chunk = if start.is_empty() { Bytes::from_static(&[0; 64 << 10]) } else { start };
        self.sent += chunk.len();
        if self.sent > 1 << 20 {
            self.waiting = None;
        }
        assert!(self.sent < 256 << 20, "nobody stopped");
        Some(chunk)
    }
}

pub(super) fn large_file() -> Vec<u8> {
    let large = |header: &mut Header| header.set_size(1 << 40);
    Tar::default().file_with("large", b"", large).0
}

pub(super) fn endless() -> Expected {
    Expected { digest: digest_of(b""), size: 1 << 50 }
}

#[test]
fn unpacking_ends_when_nobody_waits() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::File::open(directory.path()).unwrap().into();
    let waiting = CallerGuard::default();
    let caller = waiting.watch();
    let start = large_file();
    let source = Endless::new(&start, Some(waiting));
    let result = unpack(source, &endless(), None, &digest_of(b""), root, &caller);
    assert_is!(result, Err(LayerError::GivenUp));
}

/// Unpacks into a file system that is too small.
pub(super) fn unpack_into_little(
    source: impl Iterator<Item = Bytes>,
    expected: &Expected,
    key: Option<&LayerKey>,
    caller: &CallerWatch,
) -> LayerError {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, Some(c"size=1m")).unwrap();
    let root = fs::File::open(path).unwrap().into();
    let result = unpack(source, expected, key, &expected.digest, root, caller);
    rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH).unwrap();
    result.unwrap_err()
}

/// A mirror that lied filled the store, and then no other source was asked.
#[test]
fn privileged_only_the_right_blob_tells_that_the_store_is_full() {
    vm_harness::needs_root!();
    let plain = Tar::default().file("large", vec![7; 8 << 20]).bytes();
    let right = expected(&plain);
    let waiting = CallerGuard::default();
    let caller = waiting.watch();
    let error = unpack_into_little(chunks(&plain), &right, None, &caller);
    assert!(error.is_no_space() && error.is_local(), "{error:?}");

    let other = Expected { digest: digest_of(b""), ..right };
    let error = unpack_into_little(chunks(&plain), &other, None, &caller);
    assert_is!(error, LayerError::Blob(_));
    // Nor does it go on for ever.
    let start = large_file();
    let error = unpack_into_little(Endless::new(&start, None), &other, None, &caller);
    assert_is!(error, LayerError::Blob(_));
    // Where it broke off nothing is known.
    let broken = chunks(&plain).take(plain.len() / 2000);
    let error = unpack_into_little(broken, &other, None, &caller);
    assert_is!(error, LayerError::Blob(_));
}

/// It once ended the whole service with a panic.
#[test]
fn a_machine_without_threads_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::File::open(directory.path()).unwrap().into();
    let plain = Tar::default().directory("a").bytes();
    // A thread of its own, for what it may do is taken from it for good.
    let error = std::thread::spawn(move || {
        confinement::computing();
        let waiting = CallerGuard::default();
        let expected = expected(&plain);
        let source = chunks(&plain);
        unpack(source, &expected, None, &expected.digest, root, &waiting.watch()).unwrap_err()
    });
    let error = error.join().unwrap();
    assert_is!(error, LayerError::Thread(_));
    assert!(error.is_local() && !error.is_no_space());
}

/// The threads that there are already end, whichever cannot be started.
#[test]
fn each_thread_that_cannot_be_started_is_an_error() {
    let small = Tar::default().bytes();
    let large = Tar::default().file("a", noise(512 << 10)).bytes();
    let all = [(&small, 0), (&large, 1)].into_iter();
    let all = all.flat_map(|(plain, more)| {
        let blobs = blobs(plain, plain).into_iter();
        blobs.map(move |(blob, key)| (plain, more, blob, key))
    });
    for (plain, more, blob, key) in all {
        let unpack = |starts| {
            let directory = tempfile::tempdir().unwrap();
            let root = fs::File::open(directory.path()).unwrap().into();
            let expected = expected(&blob);
            let waiting = CallerGuard::default();
            let (digest, key, caller) = (digest_of(plain), key.as_ref(), waiting.watch());
            pipeline::tests::with_starts(starts, || {
                unpack(chunks(&blob), &expected, key, &digest, root, &caller)
            })
        };
        let threads = more + if key.is_some() { 4 } else { 3 };
        for starts in 0..threads {
            let error = unpack(starts).0.unwrap_err();
            assert!(matches!(error, LayerError::Thread(_)), "{starts}: {error:?}");
            assert!(error.is_local() && !error.is_no_space());
        }
        let (unpacked, left) = unpack(threads);
        unpacked.unwrap();
        assert_eq!(left, 0);
    }
}

#[test]
fn privileged_a_layer_has_limits() {
    vm_harness::needs_root!();
    let plain = Tar::default().directory("a").directory("b").bytes();
    let (size, expected) = (plain.len() as u64, expected(&plain));
    let unpack = |plain_bytes, entries| {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::File::open(directory.path()).unwrap().into();
        let limits = Limits { plain_bytes, entries, ..LIMITS };
        let waiting = CallerGuard::default();
        let caller = waiting.watch();
        pipeline::run(&limits, chunks(&plain), &expected, None, &expected.digest, root, &caller)
    };
    unpack(size, 2).unwrap();
    let error = unpack(size - 1, 2).unwrap_err();
    assert_is!(error, LayerError::Compression(_));
    let error = unpack(size, 1).unwrap_err();
    assert!(error.to_string().contains("number of entries exceeds"), "{error:?}");
}

/// The header of a frame and a block of one byte, by hand (RFC 8878, "Zstandard Frames"): no
/// encoder makes the largest.
#[test]
fn a_zstd_window_has_a_limit() {
    let frame = |window_log: u8| {
        let magic = [0x28, 0xb5, 0x2f, 0xfd];
        [&magic[..], &[0, (window_log - 10) << 3], &[0b1001, 0, 0], b"x"].concat()
    };
    for (window_log, is_taken) in [(25, true), (26, false)] {
        let frame = frame(window_log);
        let mut buffer = vec![0; compression::MIN_BUFFER_BYTES];
        let mut decoder = compression::decode(chunks::Chunks::new(chunks(&frame))).unwrap();
        match decoder.fill(&mut buffer) {
            Ok(filled) => assert!(is_taken && buffer[filled] == *b"x"),
            Err(error) => assert!(!is_taken && error.to_string().contains("32 MiB"), "{error}"),
        }
    }
}

/// A wrong archive at the beginning of a blob that is larger than all queues together: every stage
/// goes away in its own time, and the digest is still what decides.
#[test]
fn a_stage_that_ends_early_leaves_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let mut plain = vec![0x55; 512];
    plain.extend(noise((16 << 20) - 512));
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        encoder.write_all(&plain).unwrap();
        encoder.finish().unwrap()
    };
    let mut garbage = gzip.clone();
    garbage[10] = 0xff;
    let compressed = [&plain, &gzip, &garbage];
    let blobs = compressed.map(|compressed| {
        let is_garbage = compressed == &garbage;
        (is_garbage, blobs(compressed, &plain))
    });
    let blobs = blobs.into_iter().flat_map(|(is_garbage, blobs)| {
        blobs.into_iter().map(move |(blob, key)| (is_garbage, blob, key))
    });
    for (is_garbage, blob, key) in blobs {
        let expected = |digest| Expected { digest, size: blob.len() as u64 };
        let unpack = |expected: Expected| {
            let (path, key, diff_id) = (directory.path(), key.as_ref(), digest_of(&plain));
            unpack_into(path, chunks(&blob), &expected, key, &diff_id).unwrap_err()
        };
        let error = unpack(expected(digest_of(&blob)));
        let is_expected = match error {
            LayerError::Unpack(_) => !is_garbage,
            LayerError::Compression(_) => is_garbage,
            _ => false,
        };
        assert!(is_expected, "{error:?}");
        let error = unpack(expected(digest_of(b"")));
        assert_is!(error, LayerError::Blob(_));
    }
}

#[test]
fn a_panic_is_not_lost_and_leaves_nobody_waiting() {
    let start = large_file();
    for (start, key) in blobs(&start, &start) {
        let directory = tempfile::tempdir().unwrap();
        let source = Endless::new(&start, None)
            .enumerate()
            .map(|(at, chunk)| if at == 100 { panic!("the source broke") } else { chunk });
        let result = catch_unwind(AssertUnwindSafe(|| {
            let (path, key, diff_id) = (directory.path(), key.as_ref(), digest_of(b""));
            unpack_into(path, source, &endless(), key, &diff_id)
        }));
        let panic = result.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the source broke"));
    }
}
