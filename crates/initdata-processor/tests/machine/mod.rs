//! A machine in a directory: disks, platform, kernel command line, and what was written.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code, shared by test programs that each use a part"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use config_image::{Magic, encode};
use flate2::Compression;
use flate2::write::GzEncoder;
use initdata::{Algorithm, Field};
use initdata_processor::boot::{Options, run_on};
use initdata_processor::journal::{Journal, Log};
use initdata_processor::paths::Paths;
use tempfile::TempDir;

/// `None` in the tests of other rooms.
const PROGRAM: Option<&str> = option_env!("CARGO_BIN_EXE_initdata-processor");
const WAIT: &str = "wait = 0\n";
pub const UNVERIFIED: &str = "quiet configdev.allow_unverified_initdata=1\n";
pub const DOCUMENT: &str = "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n\
                            \"policy.rego\" = \"package agent_policy\"\n\"aa.toml\" = \"x = 1\"\n";
/// What becomes of [`DOCUMENT`] where it is announced.
pub const VERIFIED: Initdata = Initdata::Placed { entries: 2, verified: true };
pub const CONFIGURATION: &str = "[registries.\"registry.corp.\"]\nauth = \"c2VjcmV0\"\n";

/// What a run came to, by its files and its log.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code.
    pub code: u8,
    /// Initdata, or why it was refused.
    pub initdata: Result<Initdata, String>,
    /// The image puller's configuration if there is one, or why it was refused.
    pub puller: Result<Option<String>, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initdata {
    Absent,
    Placed { entries: usize, verified: bool },
}

pub struct Machine {
    root: TempDir,
    pub options: Options,
    pub log: String,
}

impl Machine {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["sys/block", "sys/dev/block", "dev", "etc", "proc", "run"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("proc/cmdline"), "quiet\n").unwrap();
        fs::write(root.path().join("proc/cpuinfo"), "flags\t\t: fpu vme\n").unwrap();
        let options = Options {
            paths: Paths::below(root.path()),
            include_loop: false,
            // It would hold for the rest of the test's thread; the program's own tests are in it.
            sandbox: false,
        };
        fs::write(&options.paths.settings, WAIT).unwrap();
        Self { root, options, log: String::new() }
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn cmdline(self, text: &str) -> Self {
        fs::write(&self.options.paths.cmdline, text).unwrap();
        self
    }

    /// Settings of the image; nothing is waited for unless they say so.
    pub fn settings(self, text: &str) -> Self {
        let wait = if text.contains("wait = ") { "" } else { WAIT };
        fs::write(&self.options.paths.settings, format!("{wait}{text}")).unwrap();
        self
    }

    /// A whole disk with hardware behind it.
    pub fn disk(self, name: &str, bytes: &[u8]) -> Self {
        self.plug(name, bytes).device("pci0000:00/0000:00:05.0/virtio1", name)
    }

    /// Makes the node of a device, again where the program removed it.
    pub fn plug(self, name: &str, bytes: &[u8]) -> Self {
        fs::write(self.node(name), bytes).unwrap();
        self
    }

    /// Lists a block device that is below `place` in the tree of devices. It is read-only, as our
    /// host attaches it.
    pub fn device(self, place: &str, name: &str) -> Self {
        let target = format!("devices/{place}/block/{name}");
        fs::create_dir_all(self.path().join("sys").join(&target)).unwrap();
        symlink(format!("../{target}"), self.options.paths.block.join(name)).unwrap();
        self.attribute(name, "ro", "1\n")
    }

    pub fn attribute(self, name: &str, attribute: &str, value: &str) -> Self {
        fs::write(self.options.paths.block.join(name).join(attribute), value).unwrap();
        self
    }

    /// Takes a disk away.
    pub fn unplug(&self, name: &str) {
        fs::remove_file(self.options.paths.block.join(name)).unwrap();
    }

    pub fn node(&self, name: &str) -> PathBuf {
        self.options.paths.dev.join(name)
    }

    /// Runs on `platform`.
    pub fn run(&mut self, platform: Platform) -> Outcome {
        let mut sink = Vec::new();
        let mut journal = Journal::new(&mut sink, Log::Stderr, true);
        let code = run_on(|| Ok(platform.0), &self.options, &mut journal);
        self.log = String::from_utf8(sink).unwrap();
        assert!(!self.log.contains("c2VjcmV0"), "a secret in the log");
        let said = |words: &str| self.log.split_once(words).map(|(_, rest)| rest);
        let initdata = match (said("initdata refused: "), said("initdata disk, and none was")) {
            (Some(reason), _) => Err(reason.lines().next().unwrap().to_owned()),
            (None, Some(_)) => Ok(Initdata::Absent),
            (None, None) => match self.log.split_once(" entries in measured-cfg") {
                None => Err(self.log.clone()),
                Some((before, _)) => Ok(Initdata::Placed {
                    entries: before.rsplit(' ').next().unwrap().parse().unwrap(),
                    verified: said("initdata verified").is_some(),
                }),
            },
        };
        let mut files = self.insecure().unwrap_or_default();
        let puller = match files.remove("imagepuller.error") {
            Some(reason) => Err(reason),
            None => Ok(files.remove("imagepuller.toml")),
        };
        assert!(files.is_empty());
        // What is logged is what was written, or the exit code says otherwise.
        let said = if initdata.is_ok() { 0 } else { 65 };
        assert!(code == said || code == 70, "{code}: {}", self.log);
        Outcome { code, initdata, puller }
    }

    /// Runs on `platform`, which must end in a refusal: why, and the deny-all policy.
    pub fn refused(&mut self, platform: Platform) -> (String, String) {
        let outcome = self.run(platform);
        assert_eq!(outcome.code, 65, "{}", self.log);
        assert!(self.is_marked_refused());
        (outcome.initdata.unwrap_err(), self.deny_policy())
    }

    /// Names and contents below `run/measured-cfg`; `None` where it does not exist.
    pub fn measured(&self) -> Option<BTreeMap<String, String>> {
        files(&self.path().join("run/measured-cfg"))
    }

    /// Names and contents below `run/insecure-cfg`, but for the note of a refusal; `None` where it
    /// does not exist.
    pub fn insecure(&self) -> Option<BTreeMap<String, String>> {
        let mut files = files(&self.path().join("run/insecure-cfg"))?;
        files.remove("initdata.refused");
        Some(files)
    }

    /// Whether the note of a refusal stands there.
    pub fn is_marked_refused(&self) -> bool {
        self.path().join("run/insecure-cfg/initdata.refused").exists()
    }

    /// The text of the deny-all policy, which must be all there is.
    pub fn deny_policy(&self) -> String {
        let mut files = self.measured().expect("measured-cfg exists");
        let policy = files.remove("policy.rego").expect("a policy");
        assert!(files.is_empty(), "{files:?}");
        assert!(policy.contains("default CreateContainerRequest := false\n"));
        policy
    }
}

/// The program, run below the machine's root.
pub fn program(machine: &Machine, arguments: &[&str]) -> Output {
    Command::new(PROGRAM.unwrap())
        .args(arguments)
        .arg("--root")
        .arg(machine.path())
        .output()
        .unwrap()
}

/// The program, reading a disk again for those who ask. Ends when dropped.
pub struct Refresher {
    process: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Refresher {
    /// Starts it in `machine`, and waits until it has answered once or has ended.
    pub fn start(machine: &Machine) -> Self {
        let socket = machine.path().join("refresh.socket");
        let log = machine.path().join("refresh.log");
        let process = Command::new(PROGRAM.unwrap())
            .args(["refresh", "--verbose", "--listen"])
            .arg(format!("unix:{}", socket.display()))
            .arg("--root")
            .arg(machine.path())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut refresher = Self { process, socket, log };
        let start = Instant::now();
        // It says so once it listens: until then the socket may be an earlier process's.
        while !refresher.log().contains("seccomp on") && refresher.ended().is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", refresher.log());
            sleep(Duration::from_millis(5));
        }
        let _ = refresher.asked();
        refresher
    }

    /// Asks, and gives the word that comes.
    pub fn ask(&self) -> String {
        self.asked().unwrap()
    }

    fn asked(&self) -> io::Result<String> {
        let mut word = String::new();
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.read_to_string(&mut word).map(|_| word)
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// With which exit code it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        self.process.try_wait().unwrap().and_then(|status| status.code())
    }

    pub fn log(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap();
        assert!(!log.contains("c2VjcmV0"), "a secret in the log: {log}");
        log
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Says why a test does not run, which is a failure where every test has to.
pub fn skip(reason: &str) {
    let must_run = std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_some();
    assert!(!must_run, "must not be skipped: {reason}");
    println!("skipped: {reason}");
}

/// Names and contents of the files in a directory.
pub fn files(directory: &Path) -> Option<BTreeMap<String, String>> {
    let entries = fs::read_dir(directory).ok()?;
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let content = fs::read(entry.path()).unwrap();
        (name, String::from_utf8_lossy(&content).into_owned())
    };
    Some(entries.map(file).collect())
}

/// What the machine reports: nothing, or a field.
pub struct Platform(Option<Field>);

impl Platform {
    pub fn none() -> Self {
        Self(None)
    }

    /// A field of `size` bytes: HOSTDATA 32, MRCONFIGID 48; cut or padded.
    pub fn announces(value: &[u8], size: usize) -> Self {
        let mut bytes = value.to_vec();
        bytes.resize(size, 0);
        Self(Some(Field { name: "TEST FIELD", bytes }))
    }

    /// An SNP guest started with `document`.
    pub fn snp(document: &str) -> Self {
        Self::announces(&Algorithm::Sha256.digest(document.as_bytes()), 32)
    }
}

pub fn initdata(document: &str) -> Vec<u8> {
    image(Magic::INITDATA, document)
}

pub fn configuration(document: &str) -> Vec<u8> {
    image(Magic::IMAGEPULLER, document)
}

pub fn image(magic: Magic, document: impl AsRef<[u8]>) -> Vec<u8> {
    encode(magic, document.as_ref()).unwrap().to_vec()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An image with a length field of the caller's choice.
pub fn raw(magic: &[u8; 8], length: u64, payload: &[u8]) -> Vec<u8> {
    let mut image = magic.to_vec();
    image.extend(length.to_le_bytes());
    image.extend(payload);
    image.resize(image.len().next_multiple_of(512), 0);
    image
}
