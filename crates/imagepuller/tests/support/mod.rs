//! The real service under test, and the small servers that no Debian package offers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test program uses a part of it"
)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fault_registry::{Content, FaultRegistry, Http, Script, Tls};
use registry_client::Documents;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};
use test_http::pki::Authority;
use vm_harness::layout::{self, Layout};
use vm_harness::{Registry, Scratch};

pub const USER: &str = "puller";
pub const PASSWORD: &str = "correct horse";

/// Only a machine that is very busy, or a fault, takes so long.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Waits until something holds; `complaint` is made where it never does.
pub fn wait_until<C: std::fmt::Display>(
    complaint: impl Fn() -> C,
    mut holds: impl FnMut() -> bool,
) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{}", complaint());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The program under test, with nothing to read.
pub fn imagepuller<A: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_imagepuller"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Ends a process as a service manager does.
pub fn signal(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).unwrap();
}

/// The names in a directory, in order.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Bytes that do not get smaller by compression.
pub fn noise(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A registry that does as a script says, over TLS as `localhost`, and the document that opens it.
pub fn misbehaving(content: Content, script: Script) -> (FaultRegistry, String) {
    let authority = Authority::new("misbehaving").unwrap();
    let tls = Tls {
        identity: &authority.sign(&["localhost"]).unwrap(),
        name: "localhost",
        http: Http::One,
    };
    let registry = FaultRegistry::start(content, script, Some(&tls)).unwrap();
    let document = entry("localhost", USER, PASSWORD, authority.certificate());
    (registry, document)
}

/// A registry with an image, and the document that opens it.
pub struct Site {
    pub scratch: Scratch,
    pub authority: Authority,
    pub registry: Registry,
    pub layout: Layout,
}

impl Site {
    /// With an image of real files.
    pub fn start() -> Self {
        let site = Self::with(|path| layout::sample(path).unwrap());
        site.push(&site.layout);
        site
    }

    /// With an image that is not pushed yet.
    pub fn with(make: impl FnOnce(&Path) -> Layout) -> Self {
        let scratch = Scratch::new().unwrap();
        let authority = Authority::new("test authority").unwrap();
        let names = ["localhost", "registry.corp"];
        let registry = Registry::start(&scratch, &authority, &names, USER, PASSWORD).unwrap();
        let layout = make(&scratch.path().join("layout"));
        Self { scratch, authority, registry, layout }
    }

    pub fn push(&self, image: &Layout) {
        let registry = &self.registry;
        registry.push(&self.scratch, &image.path, "team/app").unwrap();
    }

    pub fn image(&self) -> String {
        self.image_at("localhost")
    }

    /// The image, when the registry is called so.
    pub fn image_at(&self, host: &str) -> String {
        let (port, digest) = (self.registry.port(), &self.layout.manifest);
        format!("{host}:{port}/team/app@{digest}")
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

/// Where the leave begins in a measured document.
const LEAVE: &str = "# The leave for servers on this machine.\n";

/// The owner's leave for the servers that listen on this machine now, and for further ports, added
/// to a measured document in the place of an older one: the service connects to no port here that
/// is not named there. The entries are for repositories that no test has, so what holds for all
/// others stays as it is.
pub fn with_local_hosts(measured: &str, further: Option<u16>) -> String {
    let listening = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let ports = listening.iter().flatten().flat_map(|table| table.lines());
    let ports = ports.filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (own, state) = (fields.next()?, fields.nth(1)?);
        let port = u16::from_str_radix(own.rsplit_once(':')?.1, 16).ok()?;
        (state == "0A").then_some(port)
    });
    let ports: BTreeSet<_> = ports.chain(further).collect();
    let entry = |port: &u16| {
        ["localhost", "127.0.0.1", "registry.late.test"]
            .map(|host| format!("[registries.\"{host}:{port}/of-nobody\"]\nanonymous = true\n"))
    };
    let measured = measured.split(LEAVE).next().unwrap_or_default().trim_end();
    let leave: String = ports.iter().flat_map(entry).collect();
    format!("{measured}\n{LEAVE}{leave}")
}

/// The host's document for the library, which takes the caller's word for the same.
pub fn documents(configuration: impl Into<PathBuf>) -> Documents {
    Documents { any_address: true, ..Documents::of(configuration) }
}

/// A file system in memory, unmounted when dropped.
pub struct Tmpfs(PathBuf);

impl Tmpfs {
    pub fn mount(directory: PathBuf, options: &std::ffi::CStr) -> Self {
        fs::create_dir_all(&directory).unwrap();
        mount("tmpfs", &directory, "tmpfs", MountFlags::empty(), Some(options)).unwrap();
        Self(directory)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A service that gives up soon what does not come. The shipped one goes on until the deadline of
/// its caller.
const HASTY: [&str; 2] = ["--attempts", "5"];

/// A running `imagepuller serve`. Ends when dropped, with what it mounted.
pub struct Puller {
    process: Child,
    directory: PathBuf,
}

impl Puller {
    /// Starts it with a store of its own on a tmpfs, as in a guest; no document means no file.
    pub fn start(scratch: &Scratch, document: Option<&str>) -> Self {
        let directory = tempfile::tempdir_in(scratch.path()).unwrap().keep();
        // Unmounted with all that is below the directory.
        std::mem::forget(Tmpfs::mount(directory.join("store"), c"mode=700"));
        Self::start_in(directory, document)
    }

    /// The same by the example, which has the product's timing but for these options.
    pub fn start_with(scratch: &Scratch, document: &str, more: &[&str]) -> Self {
        let directory = tempfile::tempdir_in(scratch.path()).unwrap().keep();
        std::mem::forget(Tmpfs::mount(directory.join("store"), c"mode=700"));
        fs::write(directory.join("imagepuller.toml"), document).unwrap();
        let process = serve(&directory, more);
        let puller = Self { process, directory };
        puller.wait();
        puller
    }

    /// The same where this file is `/etc/resolv.conf`.
    pub fn start_with_resolver(scratch: &Scratch, document: &str, resolver: &Path) -> Self {
        let directory = tempfile::tempdir_in(scratch.path()).unwrap().keep();
        std::mem::forget(Tmpfs::mount(directory.join("store"), c"mode=700"));
        fs::write(directory.join("imagepuller.toml"), document).unwrap();
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
        command.args(["--mount", "sh", "-c", script]).arg(resolver);
        command.args([env!("CARGO_BIN_EXE_imagepuller"), "serve"]);
        let process = serve_with(command, &directory, &[]);
        let puller = Self { process, directory };
        puller.wait();
        puller
    }

    /// Starts it with everything below a directory, and waits for the socket.
    pub fn start_in(directory: PathBuf, document: Option<&str>) -> Self {
        if let Some(document) = document {
            fs::write(directory.join("imagepuller.toml"), document).unwrap();
        }
        let process = serve(&directory, &HASTY);
        let puller = Self { process, directory };
        puller.wait();
        puller
    }

    /// Starts it with a store that waits for its file system, which nobody has mounted yet.
    pub fn start_before_mount(scratch: &Scratch, document: &str) -> Self {
        let directory = tempfile::tempdir_in(scratch.path()).unwrap().keep();
        fs::write(directory.join("imagepuller.toml"), document).unwrap();
        let mount = directory.join("store").display().to_string();
        let process = serve(&directory, &["--store-mount", &mount, "--attempts", "5"]);
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
        self.process = serve(&self.directory, &HASTY);
        self.wait();
    }

    /// Takes from its store what leads to images, so that the next pull asks a registry.
    pub fn forget_documents(&self) {
        let images = self.store("images");
        // Before the first pull there is no such directory.
        if !images.exists() {
            return;
        }
        for image in names(&images) {
            fs::remove_dir_all(images.join(image)).unwrap();
        }
    }

    /// Starts it as who is not root, with everything below a directory of theirs.
    pub fn start_as(user: u32, directory: PathBuf) -> Self {
        std::os::unix::fs::chown(&directory, Some(user), Some(user)).unwrap();
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}")]);
        command.args(["--clear-groups", env!("CARGO_BIN_EXE_imagepuller"), "serve"]);
        let process = serve_with(command, &directory, &[]);
        let puller = Self { process, directory };
        puller.wait();
        puller
    }

    /// The process number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts it again where there is no network at all, with the store as it was left.
    pub fn restart_offline(&mut self) {
        let _ = fs::remove_file(self.socket());
        let mut command = Command::new("unshare");
        command.arg("--net").arg(test_command::example("timed")).arg("serve");
        self.process = serve_with(command, &self.directory, &HASTY);
        self.wait();
    }

    /// A file or directory of its store.
    pub fn store(&self, name: &str) -> PathBuf {
        self.directory.join("store/images").join(name)
    }

    fn wait(&self) {
        wait_until(|| self.log(), || self.socket().exists());
    }

    pub fn configure(&self, document: &str) {
        fs::write(self.document(), document).unwrap();
    }

    pub fn document(&self) -> PathBuf {
        self.directory.join("imagepuller.toml")
    }

    /// Puts a measured document in place, beside the leave for registries on this machine.
    pub fn measure(&self, measured: &str) {
        self.write_measured(&with_local_hosts(measured, None));
    }

    /// In one step: a pull may be reading.
    fn write_measured(&self, text: &str) {
        let path = self.directory.join("measured.toml");
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    /// Renews the leave in the measured document, if it has one, for an image's registry too.
    fn renew_leave(&self, image: &str) {
        let measured = fs::read_to_string(self.directory.join("measured.toml"));
        let Some(measured) = measured.ok().filter(|text| text.contains(LEAVE)) else {
            return;
        };
        let host = image.split('/').next().unwrap_or_default();
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let renewed = with_local_hosts(&measured, port);
        if renewed != measured {
            self.write_measured(&renewed);
        }
    }

    /// Where it asks for the configuration disk to be read again.
    pub fn refresher(&self) -> PathBuf {
        self.directory.join("refresher")
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

    /// The program's own client, asking for an image.
    pub fn client(&self, image: &str, bundle: &str) -> Command {
        self.renew_leave(image);
        let mut client = imagepuller(["request", "--socket"]);
        client.arg(self.socket()).arg(image).arg(self.directory.join(bundle));
        client
    }

    /// The same, started, with nobody to read what it says.
    pub fn ask(&self, image: &str, bundle: &str) -> Child {
        let mut client = self.client(image, bundle);
        client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Asks for an image.
    pub fn request(&self, image: &str, bundle: &str) -> Output {
        self.client(image, bundle).output().unwrap()
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
        let containers = self.containers();
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
        // One that was unmounted before may go meanwhile; none may be new.
        let left = &self.containers() - &containers;
        assert!(left.is_empty(), "containers are left: {left:?}");
    }

    /// The names of the containers' directories in the store.
    fn containers(&self) -> BTreeSet<OsString> {
        // The service listens before its store is there.
        let Ok(entries) = fs::read_dir(self.store("containers")) else {
            return BTreeSet::new();
        };
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    /// Waits until nothing is unfinished: a layer beside a bad one is given up, and its thread
    /// cleans up when it notices.
    pub fn wait_for_unfinished(&self) {
        let is_clean = || fs::read_dir(self.store("staging")).map_or(0, Iterator::count) == 0;
        wait_until(|| "an unfinished layer was left", is_clean);
    }

    /// Ends it as a service manager does.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        signal(&self.process, Signal::TERM);
        self.process.wait().unwrap()
    }
}

fn serve(directory: &Path, more: &[&str]) -> Child {
    let mut command = Command::new(test_command::example("timed"));
    command.arg("serve").stdin(Stdio::null());
    serve_with(command, directory, more)
}

fn serve_with(mut command: Command, directory: &Path, more: &[&str]) -> Child {
    let path = |name: &str| directory.join(name).display().to_string();
    let log = fs::File::options().create(true).append(true).open(path("log"));
    if !Path::new(&path("measured.toml")).exists() {
        fs::write(path("measured.toml"), with_local_hosts("", None)).unwrap();
    }
    command
        .args([
            "--listen",
            &format!("unix:{}", path("run/socket")),
            "--store",
            &path("store/images"),
            "--config",
            &path("imagepuller.toml"),
            "--refresher",
            &format!("unix:{}", path("refresher")),
            "--measured",
            &path("measured.toml"),
            "--attestation-agent",
            &format!("unix:{}", path("aa.sock")),
            "--reasons",
            &path("reasons"),
        ])
        .args(more)
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
        for point in mount_points().iter().rev() {
            if Path::new(point).starts_with(&self.directory) {
                let _ = unmount(point, UnmountFlags::DETACH);
            }
        }
    }
}

/// Where something is mounted, the first mount first.
pub fn mount_points() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    points.map(str::to_owned).collect()
}

pub fn is_mounted(path: &Path) -> bool {
    mount_points().iter().any(|point| Path::new(point) == path)
}
