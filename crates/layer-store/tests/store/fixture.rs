//! Layers made of archives, and small file systems.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use layer_store::layer::Layer;
use layer_store::store::Store;
use layer_unpack::blob::Expected;
use layer_unpack::caller::CallerGuard;
use layer_unpack::{LayerError, Unpacked};
use oci_image::digest::Digest;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vm_harness::archive::Tar;

/// The digest of some bytes.
pub fn digest_of(bytes: &[u8]) -> Digest {
    let zero = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
    let mut hasher = zero.hasher();
    hasher.update(bytes);
    hasher.finish()
}

/// Makes a layer of a store.
pub fn publish(tar: Tar, store: &Store) -> Layer {
    try_publish(&tar.bytes(), store).unwrap()
}

/// Makes a layer of a store as a pull does.
pub fn try_publish(bytes: &[u8], store: &Store) -> Result<Layer, Failed> {
    let digest = digest_of(bytes);
    let (staging, root) = store.stage(&digest)?;
    let expected = Expected { digest: digest.clone(), size: bytes.len() as u64 };
    let waiting = CallerGuard::default();
    let pieces = [Bytes::copy_from_slice(bytes)].into_iter();
    let unpacked: Result<Unpacked, LayerError> =
        layer_unpack::unpack(pieces, &expected, None, &digest, root, &waiting.watch());
    match unpacked {
        Err(error) if error.is_no_space() => Err(store.full().into()),
        unpacked => Ok(staging.publish(&unpacked?)?),
    }
}

/// Opens a store that another one of this test or of its child had open a moment ago: a child that
/// a neighbour has just forked may still have the lock.
pub fn reopen(path: &Path) -> Store {
    let store = RefCell::new(None);
    wait_until(|| match Store::open(path) {
        Ok(opened) => {
            *store.borrow_mut() = Some(opened);
            true
        }
        Err(error) if error.to_string().contains("another imagepuller") => false,
        Err(error) => panic!("{error}"),
    });
    store.into_inner().unwrap()
}

/// Why a layer was not made.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error(transparent)]
    Store(#[from] layer_store::Error),
    #[error(transparent)]
    Layer(#[from] LayerError),
}

/// A file system of its own, gone when dropped.
pub struct Small {
    pub path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Small {
    /// A tmpfs with these options.
    pub fn tmpfs(options: &str) -> Self {
        Self::mount(&["-t", "tmpfs", "-o", options, "tmpfs"])
    }

    /// An ext4 of some MiB, with as many inodes.
    pub fn ext4(mebibytes: u64, inodes: &str) -> Self {
        Self::ext4_with(mebibytes, &["-N", inodes])
    }

    /// An ext4 of some MiB, made with these options.
    pub fn ext4_with(mebibytes: u64, options: &[&str]) -> Self {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(mebibytes << 20).unwrap();
        let path = image.path().to_str().unwrap();
        let arguments = [&["-q", "-m", "0"], options, &[path]].concat();
        run("mkfs.ext4", &arguments);
        // The loop device keeps the file.
        Self::mount(&["-t", "ext4", "-o", "loop", path])
    }

    fn mount(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fs");
        std::fs::create_dir(&path).unwrap();
        let at = path.to_str().unwrap();
        run("mount", &[arguments, &[at]].concat());
        Self { path, _directory: directory }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// A directory in memory. When dropped, what is mounted on its entries goes first.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.path()).into_iter().flatten().flatten() {
            while unmount(entry.path(), UnmountFlags::DETACH).is_ok() {}
        }
    }
}

fn run(program: &str, arguments: &[&str]) {
    // Debian's root finds these, other users do not.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
}

/// As many descriptors as may be had, which programs get only if they ask.
pub fn allow_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

/// How many entries a directory has.
pub fn count(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

/// Waits for what comes soon, unless something is wrong.
pub fn wait_until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited long");
        sleep(Duration::from_millis(5));
    }
}
