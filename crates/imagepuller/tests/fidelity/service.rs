//! A running `imagepuller serve` whose store is wherever a test wants it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};

use crate::support::Site;

/// The service; ended when dropped, with what it mounted.
pub struct Service {
    process: Child,
    directory: PathBuf,
}

impl Service {
    /// Starts it with a store and a socket below `directory`.
    pub fn start(site: &Site, directory: &Path) -> Self {
        fs::write(
            directory.join("imagepuller.toml"),
            site.document("localhost"),
        )
        .unwrap();
        let log = fs::File::create(directory.join("log")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_imagepuller"))
            .arg("serve")
            .arg("--listen")
            .arg(format!("unix:{}", directory.join("socket").display()))
            .arg("--store")
            .arg(directory.join("images"))
            .arg("--config")
            .arg(directory.join("imagepuller.toml"))
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            process,
            directory: directory.to_owned(),
        }
    }

    /// Asks for an image, as soon as the service listens.
    pub fn request(&mut self, image: &str) -> Output {
        let deadline = Instant::now() + Duration::from_secs(60);
        let is_listening = || self.directory.join("socket").exists();
        while !is_listening() && self.process.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        Command::new(env!("CARGO_BIN_EXE_imagepuller"))
            .arg("request")
            .arg("--socket")
            .arg(self.directory.join("socket"))
            .arg(image)
            .arg(self.directory.join("bundle"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Pulls an image without the service.
    pub fn pull(&self, image: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_imagepuller"))
            .arg("pull")
            .arg("--config")
            .arg(self.directory.join("imagepuller.toml"))
            .arg("--output")
            .arg(self.directory.join("pulled"))
            .arg(image)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    pub fn pulled_rootfs(&self) -> PathBuf {
        self.directory.join("pulled/rootfs")
    }

    pub fn rootfs(&self) -> PathBuf {
        self.directory.join("bundle/rootfs")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = unmount(self.rootfs(), UnmountFlags::DETACH);
    }
}
