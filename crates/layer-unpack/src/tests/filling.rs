//! The thread that fills files may be early or late: the layer is the same.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;

use vm_harness::walk::walk;

use super::*;
use crate::chunks::Chunks;
use crate::filling::tests::PANIC;
use crate::filling::{Files, Filler};

/// Who fills the files of a layer.
#[derive(Clone, Copy, Debug)]
enum By {
    /// The thread that makes them.
    Itself,
    /// A thread of its own, as fast as it is.
    Another,
    /// Somebody who begins when everything is made.
    Late,
}

const ALL: [By; 3] = [By::Itself, By::Another, By::Late];

/// Unpacks into `root`; an error as its words.
fn unpack_by(by: By, plain: &[u8], root: &Path) -> Result<(), String> {
    let waiting = CallerGuard::default();
    let caller = waiting.watch();
    let directory = fs::File::open(root).unwrap().into();
    let filled_apart_bytes = match by {
        By::Itself => u64::MAX,
        By::Another => 0,
        By::Late => return unpack_late(plain, directory, &caller),
    };
    let limits = Limits { filled_apart_bytes, ..LIMITS };
    let expected = expected(plain);
    let digest = &expected.digest;
    let source = chunks(plain);
    pipeline::run(&limits, source, &expected, None, digest, directory, &caller)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn unpack_late(plain: &[u8], root: OwnedFd, caller: &CallerWatch) -> Result<(), String> {
    let (to_fill, filled) = sync_channel(1 << 16);
    let mut source = Chunks::new(chunks(plain));
    let made = unpack::unpack(&mut source, root, 1000, Files::there(to_fill), caller);
    let filled = Filler::default().run(filled);
    filled.and(made.map(drop)).map_err(|error| error.to_string())
}

/// What comes of it in all ways, which has to be one thing.
fn unpack_in_all_ways(tar: &Tar) -> Result<tempfile::TempDir, String> {
    let plain = tar.clone().bytes();
    let [itself, others @ ..] = ALL.map(|by| {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let unpacked = unpack_by(by, &plain, directory.path());
        (by, unpacked.map(|()| directory))
    });
    for (by, other) in others {
        match (&itself.1, other) {
            (Ok(itself), Ok(other)) => {
                assert_eq!(walk(itself.path()), walk(other.path()), "{by:?}")
            }
            (Err(itself), Err(other)) => assert_eq!(*itself, other, "{by:?}"),
            (itself, other) => panic!("{by:?}: {itself:?}, {other:?}"),
        }
    }
    itself.1
}

#[test]
fn privileged_what_later_entries_do_to_a_name_leaves_its_file_alone() {
    vm_harness::needs_root!();
    let long = noise(60 << 10);
    let private = |header: &mut Header| {
        header.set_mode(0o4600);
        header.set_uid(7);
    };
    let tar = Tar::default()
        .directory_with("d", |header| header.set_mtime(1_500_000_000))
        .file("d/replaced", &long)
        .file("d/replaced", "new")
        .file_with("d/linked", &long, private)
        .hard_link("d/link", "d/linked")
        .file("d/linked", "another")
        .file("d/whited-out", &long)
        .file("d/.wh.whited-out", "")
        .directory("tree")
        .file("tree/file", &long)
        .file("tree", "no tree any more")
        .file("d/empty", "")
        .file("d/last", &long);
    let directory = unpack_in_all_ways(&tar).unwrap();
    let path = |name: &str| directory.path().join(name);
    let read = |name: &str| fs::read(path(name)).unwrap();
    assert_eq!(read("d/replaced"), b"new");
    assert_eq!(read("d/linked"), b"another");
    assert_eq!(read("tree"), b"no tree any more");
    for name in ["d/link", "d/whited-out", "d/last"] {
        assert!(read(name) == long, "{name}");
    }
    let link = path("d/link").metadata().unwrap();
    let seen = (link.mode() & 0o7777, link.uid(), link.mtime(), link.nlink());
    assert_eq!(seen, (0o4600, 7, 1_700_000_000, 1));
    assert_eq!(path("d").metadata().unwrap().mtime(), 1_500_000_000);
}

/// The first entry that fails is the one that is told, whichever thread finds it.
#[test]
fn privileged_the_first_error_counts() {
    vm_harness::needs_root!();
    let full = Tar::default().file("large", vec![7; 4 << 20]);
    for (tar, expected) in [
        (full.clone().file("../later", ""), "cannot write \"large\""),
        (full, "cannot write \"large\""),
        (Tar::default().file("../earlier", "").file("b", ""), "\"../earlier\" has a component"),
    ] {
        let plain = tar.bytes();
        for by in ALL {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            let flags = rustix::mount::MountFlags::empty();
            rustix::mount::mount("tmpfs", path, "tmpfs", flags, Some(c"size=1m")).unwrap();
            let error = unpack_by(by, &plain, path).unwrap_err();
            rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH).unwrap();
            assert!(error.contains(expected), "{by:?}: {error}");
        }
    }
}

#[test]
fn a_panic_about_a_file_is_not_lost() {
    let directory = tempfile::tempdir().unwrap();
    let tar = Tar::default().file(PANIC, "x").file("b", noise(4 << 20));
    let plain = tar.bytes();
    for by in ALL {
        let unpack = || unpack_by(by, &plain, directory.path());
        let panic = catch_unwind(AssertUnwindSafe(unpack)).unwrap_err();
        let words = panic.downcast_ref::<&str>();
        assert_eq!(words, Some(&"the file broke"), "{by:?}");
    }
}

/// As many buffers as there are, each with a little of a file in it.
#[test]
fn privileged_a_layer_in_small_pieces_does_not_wait_for_itself() {
    vm_harness::needs_root!();
    let archive = (0..300)
        .fold(Tar::default(), |tar, number| tar.file(format!("{number}"), format!("{number}")));
    unpack_in_all_ways(&archive).unwrap();
    // Most of it are headers, so each buffer of a quarter MiB has few files.
    let mut sparse = Tar::default();
    for number in 0..40 {
        let comment = vec![b'c'; 200 << 10];
        sparse = sparse.pax(&[("comment", &comment)]);
        sparse = sparse.file(format!("{number}"), "x");
    }
    unpack_in_all_ways(&sparse).unwrap();
}

/// One entry of a layer.
#[derive(Clone, Debug)]
struct Drawn {
    kind: usize,
    name: usize,
    other: usize,
    size: usize,
    mode: u32,
    owner: u64,
    time: u64,
}

const NAMES: [&str; 9] = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "l/a", "d/.wh.a"];

impl Drawn {
    fn add(&self, tar: Tar) -> Tar {
        let (name, other) = (NAMES[self.name], NAMES[self.other]);
        let change = |header: &mut Header| {
            header.set_mode(self.mode);
            header.set_uid(self.owner);
            header.set_gid(self.owner);
            header.set_mtime(self.time);
        };
        let content = vec![b'0' + self.name as u8; self.size];
        match self.kind {
            0 => tar.directory_with(name, change),
            1 => tar.symlink("l", "d"),
            2 => tar.hard_link(name, other),
            3 => tar.entry(EntryType::Fifo, name, "", b""),
            4 => {
                let attribute: (&str, &[u8]) = ("SCHILY.xattr.user.name", other.as_bytes());
                tar.pax(&[attribute]).file_with(name, content, change)
            }
            5 => {
                let holes: [(&str, &[u8]); 3] = [
                    ("GNU.sparse.size", b"5000"),
                    ("GNU.sparse.numblocks", b"2"),
                    ("GNU.sparse.map", b"10,3,4000,2"),
                ];
                tar.pax(&holes).file_with(name, b"abcde", change)
            }
            _ => tar.file_with(name, content, change),
        }
    }
}

fn is_right(tar: &Tar) -> bool {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    unpack_by(By::Late, &tar.clone().bytes(), directory.path()).is_ok()
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let size = prop_oneof![Just(0), 1usize..700, Just(70_000)];
    let mode = prop_oneof![Just(0o644), Just(0o4755), Just(0)];
    let names = (0..NAMES.len(), 0..NAMES.len());
    (0usize..12, names, size, mode, 0u64..2, 0u64..9).prop_map(
        |(kind, (name, other), size, mode, owner, time)| Drawn {
            kind,
            name,
            other,
            size,
            mode,
            owner,
            time,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn privileged_any_layer_is_the_same_whoever_fills_its_files(
        entries in proptest::collection::vec(drawn(), 1..24),
    ) {
        if !vm_harness::is_root("privileged_any_layer_is_the_same_whoever_fills_its_files") {
            return Ok(());
        }
        let all = entries.iter().fold(Tar::default(), |tar, entry| entry.add(tar));
        let _ = unpack_in_all_ways(&all);
        // Most of them break a rule somewhere.
        let right = entries.iter().fold(Tar::default(), |tar, entry| {
            let longer = entry.add(tar.clone());
            if is_right(&longer) { longer } else { tar }
        });
        unpack_in_all_ways(&right).unwrap();
    }
}
