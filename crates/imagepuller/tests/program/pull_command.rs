//! `imagepuller pull`: one image into a directory, without a service and without a mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fault_registry::{Action, Bytes, Content, End, FaultRegistry, Image, Layer, Script, What};
use rustix::process::Signal;

use super::served::Served;
use crate::support::{imagepuller, misbehaving, names, signal, wait_until};

mod pins;
mod pipe;
mod terminal;

/// A registry with one image of two layers, and a place to pull it to.
struct Site {
    registry: FaultRegistry,
    digest: String,
    directory: tempfile::TempDir,
}

impl Site {
    fn start(script: Script) -> Self {
        let layers = [
            Layer::gzip(&[("base", b"base"), ("both", b"lower")]),
            Layer::gzip(&[("both", b"upper"), (".wh.base", b"")]),
        ];
        let mut content = Content::default();
        let digest = Image::new(layers.map(Result::unwrap).into()).publish(&mut content);
        let (registry, document) = misbehaving(content, script);
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(directory.path().join("imagepuller.toml"), document).unwrap();
        Self { registry, digest, directory }
    }

    fn name(&self) -> String {
        format!("localhost:{}/team/app", self.registry.address().port())
    }

    fn image(&self) -> String {
        format!("{}@{}", self.name(), self.digest)
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    fn command(&self, image: &str, more: &[&str]) -> Command {
        let mut command = imagepuller(["pull", "--config"]);
        command
            .arg(self.directory.path().join("imagepuller.toml"))
            .arg("--output")
            .arg(self.output())
            .args(more)
            .arg(image);
        command
    }

    fn pull(&self, image: &str, more: &[&str]) -> Output {
        self.command(image, more).output().unwrap()
    }

    fn asked_for(&self, what: What) -> usize {
        let requests = self.registry.requests();
        requests.iter().filter(|request| request.what == what).count()
    }

    /// A pull that must fail with this code and these words, and leave nothing.
    fn refuse(&self, image: &str, more: &[&str], code: i32, words: &str) {
        let output = self.pull(image, more);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(words), "{words:?} is missing in: {error}");
        assert!(!self.output().exists(), "something was left: {error}");
        assert!(output.stdout.is_empty());
    }
}

fn check(output: &Path) {
    assert_eq!(names(output), ["image-config.json", "rootfs"]);
    assert_eq!(names(&output.join("rootfs")), ["both"]);
    assert_eq!(fs::read(output.join("rootfs/both")).unwrap(), b"upper");
    let text = fs::read(output.join("image-config.json")).unwrap();
    let configuration: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(configuration["os"], "linux");
}

#[test]
fn privileged_an_image_becomes_a_directory() {
    vm_harness::needs_root!();
    let site = Site::start(Script::new());
    let output = site.pull(&site.image(), &[]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), site.digest);
    assert!(log.contains("layer unpacked"), "no log lines: {log}");
    assert!(!log.contains('\u{1b}'), "a bar without a terminal: {log}");
    check(&site.output());

    // Not a second time into the same, and what is there stays.
    let again = site.pull(&site.image(), &[]);
    assert_eq!(again.status.code(), Some(73));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"));
    check(&site.output());
    let file = site.directory.path().join("imagepuller.toml");
    let command = ["pull", "--output", file.to_str().unwrap(), &site.image()];
    let onto_a_file = imagepuller(command).output().unwrap();
    let error = String::from_utf8_lossy(&onto_a_file.stderr);
    assert_eq!(onto_a_file.status.code(), Some(73), "{error}");
}

#[test]
fn privileged_programs_read_events() {
    vm_harness::needs_root!();
    let site = Site::start(Script::new());
    let output = site.pull(&site.image(), &["--json"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let events: Vec<_> = text.lines().map(json).collect();
    assert_eq!(events[0]["event"], "resolved");
    assert_eq!(events[0]["layers"], 2);
    assert_eq!(events[0]["manifestDigest"], *site.digest);
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((of("started"), of("unpacked")), (2, 2), "{text}");
    assert!(of("received") >= 2, "{text}");
    let last = events.last().unwrap();
    assert_eq!(last["event"], "done");
    assert_eq!(last["manifestDigest"], *site.digest);
    assert_eq!(last["output"], *site.output().to_string_lossy());

    let output = site.pull("localhost/no-digest", &["--json"]);
    assert_eq!(output.status.code(), Some(65));
    let text = String::from_utf8(output.stdout).unwrap();
    let last = json(text.trim_end());
    assert_eq!((&last["event"], &last["exitCode"]), (&"failed".into(), &65.into()));
    assert!(last["error"].as_str().unwrap().contains("localhost/no-digest"));
}

#[test]
fn privileged_people_see_a_bar() {
    vm_harness::needs_root!();
    let slowly = Action::Drip { bytes: 20, pause_ms: 20 };
    let site = Site::start(Script::new().always(What::AnyLayer, [slowly]));
    let command = site.command(&site.image(), &[]);
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_str().unwrap())
        .collect();
    // A real terminal: script's.
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command"])
        .args([&words.join(" "), "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("/2 layers") && shown.contains(" left, "), "{shown}");
    // The closing line, and nothing of the bar behind it.
    let (_, end) = shown.rsplit_once(": 2 layers, ").unwrap();
    assert!(end.contains(" in ") && end.contains("/s") && !end.contains("left"), "{shown}");
    assert!(shown.contains(&site.digest), "{shown}");
    assert!(!shown.contains("INFO"), "{shown}");
    check(&site.output());
}

#[test]
fn privileged_a_tag_is_taken_only_if_asked_for() {
    vm_harness::needs_root!();
    let site = Site::start(Script::new());
    let tagged = format!("{}:latest", site.name());
    site.refuse(&tagged, &[], 65, "digest");
    let output = site.pull(&tagged, &["--insecure-no-digest"]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), site.digest);
    assert!(log.contains("WARN") && log.contains(&site.digest), "{log}");
    check(&site.output());
    // The service has no such thing.
    let serve = imagepuller(["serve", "--insecure-no-digest"]).output().unwrap();
    assert_eq!(serve.status.code(), Some(64));
}

#[test]
fn privileged_a_failure_leaves_nothing() {
    vm_harness::needs_root!();
    let flipped = Script::new().always(What::Layer(1), [Action::Body(Bytes::Flipped)]);
    let site = Site::start(flipped);
    site.refuse(&site.image(), &[], 65, "not the blob");
    site.refuse(&site.image(), &["--platform", "linux/s390x"], 65, "s390x");
    site.refuse(&site.image(), &["--platform", "nonsense"], 64, "--platform");
    let missing = format!("{}@sha256:{}", site.name(), "0".repeat(64));
    site.refuse(&missing, &[], 69, "failed to pull localhost");
    // A directory that was there stays, and is as empty as it was.
    fs::create_dir(site.output()).unwrap();
    assert_eq!(site.pull(&site.image(), &[]).status.code(), Some(65));
    assert!(names(&site.output()).is_empty());
    fs::remove_dir(site.output()).unwrap();

    fs::remove_file(site.directory.path().join("imagepuller.toml")).unwrap();
    site.refuse(&site.image(), &[], 65, "imagepuller.toml does not exist");
}

/// Nothing of what the owner says elsewhere lets a pull pass that the hub would refuse.
#[test]
fn the_hubs_configuration_holds_for_both_commands() {
    let site = Site::start(Script::new());
    let cdh = site.directory.path().join("cdh.toml");
    let option = cdh.to_str().unwrap();
    let host = format!("localhost:{}", site.registry.address().port());
    let blocked = "image.registry_config.registry = [{blocked = true, prefix = \"HOST\"}]";
    let mut served = Served::new();
    served.start(served.command(&["socket"]).args(["--cdh", option]));
    served.wait_for("socket");
    let socket = served.path("socket");
    for (text, code, words) in [
        ("image.nydus = 1", 65, "cdh.toml is read like a measured document"),
        ("image.nydus = 1", 65, "line 1: image.nydus: not a key that is known here"),
        (blocked, 69, "measured entry \"HOST\" holds no certificate and so forbids the host"),
    ] {
        fs::write(&cdh, text.replace("HOST", &host)).unwrap();
        let words = words.replace("HOST", &host);
        site.refuse(&site.image(), &["--cdh", option], code, &words);
        let mut request = imagepuller(["request", "--socket"]);
        let request = request.arg(&socket).arg(site.image()).arg(site.output());
        let answer = request.output().unwrap();
        let error = String::from_utf8_lossy(&answer.stderr);
        assert_eq!(answer.status.code(), Some(code), "{error}");
        assert!(error.contains(&words), "{error}");
    }
    assert_eq!(site.registry.requests().len(), 0);
    site.refuse(&site.image(), &["--cdh", "/absent"], 65, "/absent does not exist");
}

/// Somebody who looks on is not kept waiting as a service is.
#[test]
fn privileged_the_same_is_asked_for_five_times() {
    vm_harness::needs_root!();
    let site = Site::start(Script::new().always(What::Manifest, [Action::status(503)]));
    site.refuse(&site.image(), &[], 69, "localhost");
    assert_eq!(site.asked_for(What::Manifest), 5);
}

#[test]
fn privileged_an_interrupted_pull_leaves_nothing() {
    vm_harness::needs_root!();
    let stall = Action::cut(100, End::Stall);
    let site = Site::start(Script::new().always(What::AnyLayer, [stall]));
    for (round, kind) in [(1, Signal::INT), (2, Signal::TERM)] {
        let mut command = site.command(&site.image(), &[]);
        let mut pull = command.stderr(Stdio::null()).spawn().unwrap();
        let is_asked = |layer| site.asked_for(What::Layer(layer)) == round;
        wait_until(|| "no layer is fetched", || is_asked(0) && is_asked(1));
        signal(&pull, kind);
        assert_eq!(pull.wait().unwrap().code(), Some(130));
        assert!(!site.output().exists(), "{:?}", names(&site.output()));
    }
}
