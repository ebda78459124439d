use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::thread::sleep;
use std::time::Instant;

use config_image::{ReadAt, decode, encode};
use tempfile::TempDir;

use super::*;
use crate::capacity::pad;
use crate::shared_image::{put, remove};

fn image(document: &str, size: usize) -> Vec<u8> {
    let image = encode(Magic::IMAGEPULLER, document.as_bytes()).unwrap();
    pad(image, size).to_vec()
}

/// The disk after each step that an update can be seen or end at: every byte of the lengths, every
/// sector of what lies between.
fn states(old: &[u8], new: &[u8]) -> Vec<Vec<u8>> {
    let mut disk = old.to_vec();
    let mut states = vec![disk.clone()];
    for (offset, bytes) in steps(new) {
        let mut at = usize::try_from(offset).unwrap();
        let parts: Vec<&[u8]> = if bytes.len() == 8 {
            bytes.chunks(1).collect()
        } else {
            bytes.chunks(SECTOR_BYTES).collect()
        };
        for part in parts {
            disk[at..at + part.len()].copy_from_slice(part);
            at += part.len();
            states.push(disk.clone());
        }
    }
    states
}

/// A disk that goes from one state to a later one between any two reads.
struct Changing<'a> {
    states: &'a [Vec<u8>],
    now: std::cell::Cell<usize>,
    random: std::cell::Cell<u64>,
}

impl Changing<'_> {
    fn random(&self, limit: usize) -> usize {
        let mut state = self.random.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        usize::try_from(state >> 11).unwrap() % limit
    }

    /// Stays more often than it goes on, and goes any distance.
    fn go_on(&self) {
        if self.random(3) == 0 {
            let left = self.states.len() - self.now.get();
            self.now.set(self.now.get() + self.random(left));
        }
    }
}

impl ReadAt for Changing<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.states[0].len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut at = usize::try_from(offset).unwrap();
        for part in buffer.chunks_mut(SECTOR_BYTES) {
            self.go_on();
            part.copy_from_slice(&self.states[self.now.get()][at..at + part.len()]);
            at += part.len();
        }
        Ok(())
    }
}

/// Documents as rotation makes them, and some that are made to be mixed up.
fn pairs() -> Vec<(String, String)> {
    let entry = |name: &str, password: &str| {
        format!("[registries.\"{name}.corp\"]\nusername = \"robot\"\npassword = \"{password}\"\n")
    };
    let filler = "# nothing\n".repeat(300);
    let many = |password: &str| {
        (0..40).map(|number| entry(&format!("r{number}"), password)).collect::<String>()
    };
    let around =
        |password: &str| format!("{}{filler}{}", entry("first", password), entry("last", password));
    vec![
        (entry("a", "old-password"), entry("a", "new-password")),
        (many("old-password"), many("new-password")),
        (many("old"), many("a-much-longer-one")),
        (many("a-much-longer-one"), many("new")),
        (around("old-password"), around("new-password")),
        (around("x"), String::new()),
        (String::new(), around("x")),
        (filler.clone(), format!("{filler}{filler}")),
        (format!("{filler}{filler}"), filler.clone()),
        (many("old").replace("r1", "r2"), many("old")),
    ]
}

#[test]
fn whenever_a_guest_reads_it_gets_the_old_document_or_the_new_one_or_none() {
    let mut counts = [0_u32; 3];
    for (old, new) in pairs() {
        let size = 32 << 10;
        let states = states(&image(&old, size), &image(&new, size));
        assert_eq!(states[states.len() - 1], image(&new, size), "nothing is left");
        for seed in 1..=2000_u64 {
            let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let disk = Changing { states: &states, now: 0.into(), random: random.into() };
            let read = decode(&disk, Magic::IMAGEPULLER);
            let found = read.map(|image| String::from_utf8(image.document.to_vec()).unwrap());
            counts[match found {
                Ok(document) if document == old => 0,
                Ok(document) if document == new => 1,
                Ok(document) => panic!("a mixture:\n{document}"),
                Err(_) => 2,
            }] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}

/// Whoever begins to read in the middle is refused by the length alone, before any checksum is
/// asked; also after the program was killed.
#[test]
fn in_the_middle_there_is_no_image() {
    for (old, new) in pairs() {
        let size = 32 << 10;
        let (old, new) = (image(&old, size), image(&new, size));
        let states = states(&old, &new);
        let [_, middle, _] = steps(&new);
        let sectors = middle.1.chunks(SECTOR_BYTES).count();
        for state in &states[8..=8 + sectors] {
            let refused = decode(state.as_slice(), Magic::IMAGEPULLER).unwrap_err();
            assert!(refused.to_string().contains("the length at offset 8 is 0,"), "{refused}");
        }
        for state in &states {
            if let Ok(found) = decode(state.as_slice(), Magic::IMAGEPULLER) {
                let whole =
                    [&old, &new].map(|image| decode(image.as_slice(), Magic::IMAGEPULLER).unwrap());
                assert!(whole.contains(&found));
            }
            assert_eq!(state[..8], *b"imgpullr", "it stays a configuration disk");
        }
    }
}

fn sandbox() -> (TempDir, SandboxId) {
    (tempfile::tempdir().unwrap(), SandboxId::parse("box-1").unwrap())
}

fn open(run: &TempDir, sandbox: &SandboxId) -> Result<InPlace, String> {
    InPlace::open_within(run.path(), sandbox, Duration::from_millis(50))
        .map(Option::unwrap)
        .map_err(|error| error.to_string())
}

#[test]
fn the_file_stays_the_same_file() {
    let (run, sandbox) = sandbox();
    assert!(InPlace::open(run.path(), &sandbox).unwrap().is_none());
    let path = put(run.path(), &sandbox, &image("old", 4096)).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let before = path.metadata().unwrap();
    let new = image("new", 4096);
    let file = open(&run, &sandbox).unwrap();
    assert_eq!((file.path(), file.capacity()), (path.as_path(), 4096));
    assert!(file.write(&new).unwrap());
    assert!(!file.write(&new).unwrap(), "the same again");
    file.write(&image("new", 8192)).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), new);
    let after = path.metadata().unwrap();
    assert_eq!(after.ino(), before.ino());
    assert_eq!(after.mode() & 0o7777, 0o600);
    drop(file);
    remove(run.path(), &sandbox).unwrap();
    assert!(InPlace::open(run.path(), &sandbox).unwrap().is_none());
}

/// How often this process has the file open.
fn times_open(path: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    descriptors
        .filter(|entry| {
            let link = entry.as_ref().unwrap().path();
            std::fs::read_link(link).is_ok_and(|target| target == path)
        })
        .count()
}

#[test]
fn one_update_at_a_time() {
    let (run, sandbox) = sandbox();
    let path = put(run.path(), &sandbox, &image("old", 512)).unwrap();
    let first = open(&run, &sandbox).unwrap();
    let busy = open(&run, &sandbox).unwrap_err();
    assert!(busy.contains("another update"), "{busy}");
    // The second one waits with the file open, and then the name is another file's.
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            InPlace::open_within(run.path(), &sandbox, Duration::from_secs(60)).map(|_| ())
        });
        let start = Instant::now();
        while times_open(&path) < 2 && start.elapsed() < Duration::from_secs(60) {
            sleep(Duration::from_millis(1));
        }
        put(run.path(), &sandbox, &image("other", 512)).unwrap();
        drop(first);
        waiting.join().unwrap()
    });
    let replaced = waiting.unwrap_err().to_string();
    assert!(replaced.contains("replaced meanwhile"), "{replaced}");
    open(&run, &sandbox).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), image("other", 512));
}

/// Nothing that is no image of ours is written into, above all not through a link.
#[test]
fn only_an_image_is_updated() {
    let refused = |change: &dyn Fn(&Path), part: &str| {
        let (run, sandbox) = sandbox();
        let path = put(run.path(), &sandbox, &image("old", 512)).unwrap();
        change(&path);
        let error = open(&run, &sandbox).unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    let replace = |content: Vec<u8>| move |path: &Path| std::fs::write(path, &content).unwrap();
    let other = encode(Magic::INITDATA, b"x").unwrap().to_vec();
    refused(&replace(other), "no configuration image");
    refused(&replace(Vec::new()), "no configuration image");
    refused(&replace(image("x", 512)[..511].to_vec()), "no configuration image");
    refused(&replace(image("x", MAX_CAPACITY_BYTES + 512)), "no configuration image");
    let elsewhere = tempfile::tempdir().unwrap();
    let victim = elsewhere.path().join("victim");
    std::fs::write(&victim, image("victim", 512)).unwrap();
    let link = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        symlink(&victim, path).unwrap();
    };
    refused(&link, "symbolic link");
    let directory_link = |path: &Path| {
        let directory = path.parent().unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        std::fs::rename(&victim, elsewhere.path().join(super::super::FILE_NAME)).unwrap();
        symlink(elsewhere.path(), directory).unwrap();
    };
    refused(&directory_link, "box-1");
    assert_eq!(
        std::fs::read(elsewhere.path().join(super::super::FILE_NAME)).unwrap(),
        image("victim", 512)
    );
    let fifo = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, Mode::RWXU, 0)
            .unwrap();
    };
    refused(&fifo, "not a regular file");
    let writable =
        |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o606)).unwrap();
    refused(&writable, "mode 0606");
}
