//! The real service under test, and the small servers that no Debian package offers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test file uses a part of it"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use test_http::pki::Authority;
use vm_harness::{Registry, Scratch};

pub const USER: &str = "puller";
pub const PASSWORD: &str = "correct horse";

/// Only a machine that is very busy, or a fault, takes so long.
pub const LIMIT: Duration = Duration::from_secs(60);

pub use vm_harness::is_root;

/// A registry with an image, and the document that opens it.
pub struct Site {
    pub scratch: Scratch,
    pub authority: Authority,
    pub registry: Registry,
    pub layout: vm_harness::layout::Layout,
}

impl Site {
    pub fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        let authority = Authority::new("test authority").unwrap();
        let registry = Registry::start(
            &scratch,
            &authority,
            &["localhost", "registry.corp"],
            USER,
            PASSWORD,
        )
        .unwrap();
        let layout = vm_harness::layout::sample(&scratch.path().join("layout")).unwrap();
        registry.push(&scratch, &layout.path, "team/app").unwrap();
        Self {
            scratch,
            authority,
            registry,
            layout,
        }
    }

    pub fn image(&self) -> String {
        format!(
            "localhost:{}/team/app@{}",
            self.registry.port(),
            self.layout.manifest
        )
    }

    /// The document that fits, for any name of the registry.
    pub fn document(&self, name: &str) -> String {
        entry(name, USER, PASSWORD, self.authority.certificate())
    }
}

pub fn entry(name: &str, user: &str, password: &str, ca_certs: &str) -> String {
    format!(
        "[registries.\"{name}\"]\nusername = \"{user}\"\npassword = \"{password}\"\nca-certs \
        = \"\"\"\n{ca_certs}\"\"\"\n"
    )
}

/// A running `imagepuller serve` with a store of its own on a tmpfs, as in a guest.
pub struct Puller {
    process: Child,
    directory: PathBuf,
}

impl Puller {
    /// Starts it and waits for the socket; no document means no file.
    pub fn start(scratch: &Scratch, document: Option<&str>) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("puller")
            .tempdir_in(scratch.path())
            .unwrap()
            .keep();
        let store = directory.join("store");
        fs::create_dir(&store).unwrap();
        rustix::mount::mount(
            "tmpfs",
            &store,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            Some(c"mode=700"),
        )
        .unwrap();
        if let Some(document) = document {
            fs::write(directory.join("imagepuller.toml"), document).unwrap();
        }
        let process = serve(&directory);
        let puller = Self { process, directory };
        puller.wait();
        puller
    }

    /// Ends it without a warning, as the kernel may.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again with the store as it was left.
    pub fn restart(&mut self) {
        let _ = fs::remove_file(self.socket());
        self.process = serve(&self.directory);
        self.wait();
    }

    /// Where its store is.
    pub fn store(&self) -> PathBuf {
        self.directory.join("store/images")
    }

    fn wait(&self) {
        let puller = self;
        let deadline = Instant::now() + LIMIT;
        while !puller.socket().exists() {
            assert!(
                Instant::now() < deadline,
                "the service did not listen: {}",
                puller.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn configure(&self, document: &str) {
        fs::write(self.directory.join("imagepuller.toml"), document).unwrap();
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("run/socket")
    }

    pub fn rootfs(&self, bundle: &str) -> PathBuf {
        self.directory.join(bundle).join("rootfs")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap()
    }

    /// Asks for an image with the program's own client.
    pub fn request(&self, image: &str, bundle: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_imagepuller"))
            .arg("request")
            .arg("--socket")
            .arg(self.socket())
            .arg(image)
            .arg(self.directory.join(bundle))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Asks for an image that must come; gives the root file system.
    pub fn pull(&self, image: &str, bundle: &str) -> PathBuf {
        let output = self.request(image, bundle);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}\n{}", self.log());
        let digest = image.rsplit_once('@').unwrap().1;
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), digest);
        self.rootfs(bundle)
    }

    /// Asks for an image that must not come: with this exit code, these words, no secret, and
    /// nothing mounted or kept.
    pub fn refuse(&self, image: &str, code: i32, words: &[&str]) {
        let count = |name: &str| {
            // The service listens before its store is there.
            fs::read_dir(self.directory.join("store/images").join(name)).map_or(0, Iterator::count)
        };
        let containers = count("containers");
        let output = self.request(image, "refused");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
        for word in words {
            assert!(error.contains(word), "{word:?} is missing in: {error}");
        }
        assert!(
            !error.contains(PASSWORD) && !self.log().contains(PASSWORD),
            "a secret was shown: {error}"
        );
        assert!(!is_mounted(&self.rootfs("refused")));
        self.wait_for_unfinished();
        assert_eq!(
            count("containers"),
            containers,
            "a container's directories were left"
        );
    }

    /// Waits until nothing is unfinished: a layer beside a bad one is given up, and its thread
    /// cleans up when it notices.
    pub fn wait_for_unfinished(&self) {
        let staging = self.directory.join("store/images/staging");
        let deadline = Instant::now() + LIMIT;
        while fs::read_dir(&staging).is_ok_and(|entries| entries.count() > 0) {
            assert!(Instant::now() < deadline, "an unfinished layer was left");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it as a service manager does.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap()
    }
}

fn serve(directory: &Path) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(directory.join("log"));
    Command::new(env!("CARGO_BIN_EXE_imagepuller"))
        .arg("serve")
        .arg("--listen")
        .arg(format!("unix:{}", directory.join("run/socket").display()))
        .arg("--store")
        .arg(directory.join("store/images"))
        .arg("--config")
        .arg(directory.join("imagepuller.toml"))
        // What the environment says about proxies must have no effect.
        .env("HTTPS_PROXY", "http://127.0.0.1:1")
        .stderr(log.unwrap())
        .spawn()
        .unwrap()
}

impl Drop for Puller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Whatever a test mounted below its own directory, deepest first.
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let ours = self.directory.to_string_lossy().into_owned();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for point in points
            .filter(|point| point.starts_with(&ours))
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

pub fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == path.to_str())
}
