//! Where a row's image goes, and what must be there afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use vm_harness::Scratch;

use crate::seen::ensure;
use crate::stage::noise;
use crate::support::{LIMIT, is_mounted};

/// How much room the store has, for images that want more.
const STORE_SIZE: &str = "size=64m,mode=700";

/// The directories of one row, with the store on a file system of limited size.
pub struct Place(PathBuf);

impl Place {
    pub fn new(scratch: &Scratch) -> Self {
        let directory =
            tempfile::Builder::new().prefix("row").tempdir_in(scratch.path()).unwrap().keep();
        let size = std::ffi::CString::new(STORE_SIZE).unwrap();
        mount("tmpfs", &directory, "tmpfs", MountFlags::empty(), Some(size.as_c_str())).unwrap();
        fs::create_dir(directory.join("bundle")).unwrap();
        Self(directory)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn check(&self, is_pulled: bool, is_usual: bool) -> Result<(), String> {
        let rootfs = self.path("bundle/rootfs");
        ensure!(is_mounted(&rootfs) == is_pulled, "mounted or not, that is the question");
        // A layer beside a bad one is given up, and its thread cleans up when it notices.
        let deadline = Instant::now() + LIMIT;
        while entries(&self.path("store/staging")) > 0 {
            ensure!(Instant::now() < deadline, "an unfinished layer was left");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let containers = entries(&self.path("store/containers"));
        ensure!(containers == usize::from(is_pulled), "{containers} containers are left");
        if is_pulled && is_usual {
            for (name, seed) in [("first", 1), ("second", 2)] {
                let right = noise(60_000, seed);
                ensure!(fs::read(rootfs.join(name)).unwrap() == right, "{name} is not right");
            }
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for path in [self.path("bundle/rootfs"), self.0.clone()] {
            let _ = unmount(&path, UnmountFlags::DETACH);
        }
    }
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}
