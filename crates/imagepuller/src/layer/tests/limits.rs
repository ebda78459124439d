//! Layers that are too deep, too large or not waited for.

use super::*;

/// A layer of 160 KB once made directories 19,500 deep, each symbolic link leading as deep as the last and then 500 more.
#[test]
fn privileged_links_do_not_lead_deeper_than_paths() {
    if !is_root("privileged_links_do_not_lead_deeper_than_paths") {
        return;
    }
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
    let (directory, result) = tar.unpack();
    let error = result.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.contains("more than 512 directories deep"),
        "{source}"
    );
    let mut at = fs::File::open(directory.path().join("layer"))
        .unwrap()
        .into();
    let mut depth = 0;
    while let Ok(below) = rustix::fs::openat(
        &at,
        "d",
        rustix::fs::OFlags::DIRECTORY,
        rustix::fs::Mode::empty(),
    ) {
        at = below;
        depth += 1;
    }
    // One entry beyond the limit may have been begun.
    assert!(depth <= 2 * 512, "{depth}");
}

/// The first bytes of a blob, and zeros for ever; somebody has to stop reading.
struct Endless<'a> {
    start: &'a [u8],
    read: usize,
    /// Dropped after a MiB.
    waiting: Option<Waiting>,
}

impl<'a> Endless<'a> {
    fn new(start: &'a [u8], waiting: Option<Waiting>) -> Self {
        let read = 0;
        Self {
            start,
            read,
            waiting,
        }
    }
}

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read += buffer.len();
        if self.read > 1 << 20 {
            self.waiting = None;
        }
        assert!(self.read < 64 << 20, "nobody stopped");
        buffer.fill(0);
        let read = self.start.read(buffer)?;
        Ok(if read == 0 { buffer.len() } else { read })
    }
}

fn large_file() -> Vec<u8> {
    let large = |header: &mut Header| header.set_size(1 << 40);
    Tar::default()
        .entry_with(EntryType::Regular, "large", "", b"", large)
        .0
}

fn endless() -> Expected {
    Expected {
        digest: digest_of(b""),
        size: 1 << 50,
    }
}

#[test]
fn unpacking_ends_when_nobody_waits() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::File::open(directory.path()).unwrap().into();
    let waiting = Waiting::default();
    let caller = waiting.caller();
    let start = large_file();
    let source = Endless::new(&start, Some(waiting));
    let result = unpack(source, &endless(), &digest_of(b""), root, &caller);
    assert!(matches!(result, Err(LayerError::GivenUp)), "{result:?}");
}

#[test]
fn privileged_a_full_store_ends_the_transfer() {
    if !is_root("privileged_a_full_store_ends_the_transfer") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, Some(c"size=1m")).unwrap();
    let root = fs::File::open(path).unwrap().into();
    let (start, waiting) = (large_file(), Waiting::default());
    let source = Endless::new(&start, None);
    let result = unpack(source, &endless(), &digest_of(b""), root, &waiting.caller());
    rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(result.unwrap_err().is_no_space());
}

#[test]
fn privileged_a_layer_has_limits() {
    if !is_root("privileged_a_layer_has_limits") {
        return;
    }
    let plain = Tar::default().directory("a").directory("b").bytes();
    let size = plain.len() as u64;
    let expected = Expected {
        digest: digest_of(&plain),
        size,
    };
    let unpack = |plain_bytes, entries| {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::File::open(directory.path()).unwrap().into();
        let limits = Limits {
            plain_bytes,
            entries,
        };
        let waiting = Waiting::default();
        let caller = waiting.caller();
        unpack_within(
            &limits,
            &plain[..],
            &expected,
            &expected.digest,
            root,
            &caller,
        )
    };
    unpack(size, 2).unwrap();
    let error = unpack(size - 1, 2).unwrap_err();
    assert!(matches!(error, LayerError::Compression(_)), "{error:?}");
    let error = unpack(size, 1).unwrap_err();
    assert!(
        error.to_string().contains("number of entries exceeds"),
        "{error:?}"
    );
}

/// The header of a frame and a block of one byte, by hand (RFC 8878, "Zstandard Frames"): no encoder makes the largest.
#[test]
fn a_zstd_window_has_a_limit() {
    let frame = |window_log: u8| {
        let magic = [0x28, 0xb5, 0x2f, 0xfd];
        [
            &magic[..],
            &[0, (window_log - 10) << 3],
            &[0b1001, 0, 0],
            b"x",
        ]
        .concat()
    };
    for (window_log, is_taken) in [(27, true), (28, false)] {
        let (frame, mut plain) = (frame(window_log), Vec::new());
        let mut decoder = compression::decode(&frame[..]).unwrap();
        let result = decoder.read_to_end(&mut plain);
        assert_eq!(result.is_ok(), is_taken, "{result:?}");
        assert_eq!(plain == b"x", is_taken);
    }
}
