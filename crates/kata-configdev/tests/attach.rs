//! `kata-configdev attach`, `detach` and `sweep`, and the wrapper's transports.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;
mod sweep;
mod wrapper;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use command::{Folder, SECRETS, run, run_line, sha256sum};
use config_image::Magic;
use serde_json::{Value, json};

const DOCUMENT: &str =
    "[registries.\"a.corp\"]\nusername = \"robot\"\npassword = \"hunter2-password\"\n";

/// A node with settings, a document, a bundle `bundle` and an empty `run`.
fn node(settings: &str) -> Folder {
    let folder = Folder::new();
    for name in ["bundle", "run", "allowed"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    folder.file("document.toml", DOCUMENT);
    folder.file("bundle/config.json", "{}");
    folder.file(
        "settings.toml",
        format!(
            "document = {:?}\nannotation-allow = [{:?}]\nrun-root = {:?}\n{settings}",
            folder.path("document.toml"),
            folder.path("allowed"),
            folder.path("run"),
        ),
    );
    folder
}

fn annotate(folder: &Folder, value: &str) {
    let name = "io.katacontainers.config.runtime.imagepuller_config";
    let spec = json!({"annotations": {name: value}});
    folder.file("bundle/config.json", spec.to_string());
}

/// The arguments of `attach` for the sandbox `box-1`, and `more`.
fn attach_arguments(folder: &Folder, more: &[&str]) -> Vec<String> {
    let (bundle, settings) = (folder.text("bundle"), folder.text("settings.toml"));
    ["attach", "--bundle", &bundle, "--sandbox-id", "box-1", "--settings", &settings]
        .iter()
        .chain(more)
        .map(ToString::to_string)
        .collect()
}

fn attach(folder: &Folder, more: &[&str]) -> command::Run {
    let arguments = attach_arguments(folder, more);
    run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn document_in(path: &Path) -> String {
    let image = std::fs::read(path).unwrap();
    let image = config_image::decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
    String::from_utf8(image.document.to_vec()).unwrap()
}

#[test]
fn a_file_is_attached_and_detached() {
    let folder = node("transport = \"file\"\n");
    let attached = attach(&folder, &[]);
    attached.succeeds();
    let report = attached.json();
    let path = folder.path("run/kata-containers/shared/initdata/box-1/imagepuller.img");
    assert_eq!(
        report,
        json!({
            "sandbox_id": "box-1",
            "attached": true,
            "transport": "file",
            "path": path,
            "held_by": null,
            "serial": "imagepuller",
            "read_only": true,
            "size": path.metadata().unwrap().len(),
            "sha256": sha256sum(&path),
            "document": folder.path("document.toml"),
        })
    );
    assert_eq!(document_in(&path), DOCUMENT);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
    assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o7777, 0o700);
    assert_eq!(path.metadata().unwrap().len() % 512, 0);

    let settings = folder.text("settings.toml");
    let detach = || run_line(&format!("detach --sandbox-id box-1 --settings {settings} --json"));
    let first = detach();
    assert_eq!((first.code, &first.json()["removed"]), (0, &json!(true)));
    assert!(!path.parent().unwrap().exists());
    let second = detach();
    assert_eq!((second.code, &second.json()["removed"]), (0, &json!(false)));
}

#[test]
fn arguments_win_over_settings() {
    let folder = node("transport = \"loop\"\n");
    let other = folder.file("other.toml", "[registries.\"b.corp\"]\n");
    std::fs::create_dir(folder.path("run2")).unwrap();
    let attached = attach(
        &folder,
        &[
            "--transport",
            "file",
            "--config",
            &folder.text("oth*.toml"),
            "--run-root",
            &folder.text("run2"),
        ],
    );
    attached.ends(0);
    let report = attached.json();
    assert_eq!(report["document"], other);
    let path = folder.path("run2/kata-containers/shared/initdata/box-1/imagepuller.img");
    assert_eq!(report["path"], path.to_str().unwrap());
    let detached =
        run_line(&format!("detach --sandbox-id box-1 --run-root {}", folder.text("run2")));
    assert_eq!(detached.stdout, format!("{}: removed\n", path.display()));
}

#[test]
fn the_annotation_chooses_as_for_the_wrapper() {
    let folder = node("transport = \"file\"\n");
    let own = folder.file("allowed/pod.toml", "# pod\n");
    annotate(&folder, &own);
    let report = attach(&folder, &[]).json();
    assert_eq!(report["document"], own);
    assert_eq!(document_in(report["path"].as_str().unwrap().as_ref()), "# pod\n");
    annotate(&folder, "");
    let none = attach(&folder, &[]);
    none.ends(0);
    assert_eq!(none.json(), json!({"sandbox_id": "box-1", "attached": false}));
    annotate(&folder, &folder.text("document.toml"));
    let refused = attach(&folder, &[]);
    refused.fails(65, &["imagepuller_config"]);
}

/// `attach` and `explain --sandbox` choose by namespace as the wrapper does, also with a document
/// of their own arguments.
#[test]
fn the_namespace_chooses_as_for_the_wrapper() {
    let folder = node("transport = \"file\"\nengine = \"containerd\"\n");
    std::fs::create_dir(folder.path("teams")).unwrap();
    let pattern = folder.text("teams/{namespace}.toml");
    for team in ["team-a", "team-b"] {
        let text = DOCUMENT.replace("a.corp", &format!("{team}.corp"));
        folder.file(&format!("teams/{team}.toml"), text);
    }
    let spec = |namespace: &str, kind: &str| {
        let annotations = json!({
            "io.kubernetes.cri.sandbox-namespace": namespace,
            "io.kubernetes.cri.container-type": kind,
        });
        let spec = json!({ "annotations": annotations });
        folder.file("bundle/config.json", spec.to_string());
    };
    spec("team-b", "sandbox");
    let report = attach(&folder, &["--config", &pattern]).json();
    assert_eq!(report["document"], folder.text("teams/team-b.toml"));
    let image = Path::new(report["path"].as_str().unwrap()).to_owned();
    assert!(document_in(&image).contains("team-b.corp"));
    let (settings, bundle) = (folder.text("settings.toml"), folder.text("bundle"));
    let fixed = ["explain", "--settings", &settings, "--config", &pattern, "--sandbox", &bundle];
    let explained = run(&[&fixed[..], &["--json"]].concat()).json();
    assert_eq!(explained["namespace"], "team-b");
    assert_eq!(explained["document"]["chosen_by"], "namespace");
    let own = folder.text("teams/team-b.toml");
    run(&fixed).prints(&["namespace   team-b\n", &format!("{own}: it is that of the pod's")]);

    for (namespace, kind, rule) in [
        ("team-c", "sandbox", "there is no "),
        ("team-b", "container", "container-type is not \"sandbox\""),
        ("../team-b", "sandbox", "is no name"),
    ] {
        spec(namespace, kind);
        for refused in [attach(&folder, &["--config", &pattern]), run(&fixed)] {
            refused.ends(65);
            refused.says(&[rule]);
        }
    }
    // Without the engine in the settings, no argument brings a document.
    folder.file("settings.toml", "transport = \"file\"\n");
    spec("team-b", "sandbox");
    let refused = attach(&folder, &["--config", &pattern]);
    refused.ends(65);
    refused.says(&["do not name the container engine"]);
    // Nor does the kubelet say whose pod it pulls for.
    folder.file("settings.toml", format!("document = {pattern:?}\nengine = \"cri-o\"\n"));
    let question = r#"{"kind":"CredentialProviderRequest","image":"team-a.corp/x",
        "apiVersion":"credentialprovider.kubelet.k8s.io/v1"}"#;
    let question = folder.file("question.json", question);
    let mut command = Command::new(env!("CARGO_BIN_EXE_kata-configdev"));
    command.args(["credential-provider", "--settings", &settings]);
    command.stdin(std::fs::File::open(question).unwrap());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0), "{stderr}");
    assert!(stderr.contains("is a document for each namespace: name the"), "{stderr}");
}

#[test]
fn what_attach_refuses() {
    let folder = node("");
    for (more, code, part) in [
        // The default, and an anonymous file ends with the process.
        (&[][..], 64, "give --hold"),
        (&["--transport", "loop"], 64, "give --hold"),
        (&["--transport", "file", "--hold"], 64, "nothing to hold"),
        (&["--transport", "vhost"], 64, "possible values"),
        (&["--transport", "vhost-user"], 64, "--socket"),
        (&["--transport", "vhost-user", "--hold", "--socket", "x"], 64, "nothing to hold"),
        (&["--transport", "file", "--socket", "x"], 64, "vhost-user"),
        (&["--transport", "file", "--once", "1"], 64, "vhost-user"),
        (&["--transport", "file", "--config", &folder.text("*.txt")], 65, "no file matches"),
        (&["--transport", "file", "--config", &folder.text("*.toml")], 65, "more than one file"),
        (
            &["--transport", "file", "--run-root", &folder.text("absent")],
            69,
            "absent: No such file",
        ),
    ] {
        let refused = attach(&folder, more);
        refused.fails(code, &[part]);
    }
    for id in ["", "../box", "a/b", ".", "-x"] {
        let id = format!("--sandbox-id={id}");
        let settings = folder.text("settings.toml");
        let bundle = folder.text("bundle");
        for command in [&["attach", "--bundle", &bundle][..], &["detach"]] {
            let arguments = [command, &[&id, "--settings", &settings]].concat();
            run(&arguments).ends(64);
        }
    }
    folder.file("document.toml", "[registries.\"a.corp\"]\npassword = \"hunter2-password\"\n");
    let refused = attach(&folder, &["--transport", "file"]);
    refused.ends(65);
    assert_eq!(folder.count("run"), 0);
}

/// A typing error in --bundle once gave the node's document to a pod that asked for none.
#[test]
fn a_bundle_without_a_spec_is_refused() {
    let folder = node("");
    let (settings, socket) = (folder.text("settings.toml"), folder.text("disk.sock"));
    let fixed = ["--sandbox-id", "box-1", "--settings", &settings];
    for bundle in ["absent", "run", "document.toml"].map(|name| folder.text(name)) {
        for transport in [&["file"][..], &["vhost-user", "--socket", &socket]] {
            let call = ["attach", "--bundle", &bundle, "--transport"];
            let refused = run(&[&call, transport, &fixed].concat());
            refused.fails(65, &["the sandbox's", &bundle, "config.json"]);
        }
        run(&["explain", "--settings", &settings, "--sandbox", &bundle]).fails(65, &[&bundle]);
    }
    assert_eq!(folder.count("run"), 0);
}

/// A process that holds a disk, and its report.
struct Holder {
    child: Child,
    report: Value,
}

impl Holder {
    /// Returns what it printed on standard error where it ended at once.
    fn start(folder: &Folder, transport: &str) -> Result<Self, String> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
            .args(attach_arguments(folder, &["--transport", transport, "--hold"]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = String::new();
        for line in BufReader::new(child.stdout.as_mut().unwrap()).lines() {
            let line = line.unwrap();
            text.push_str(&line);
            if line == "}" {
                let report = serde_json::from_str(&text).unwrap();
                assert!(SECRETS.iter().all(|secret| !text.contains(secret)));
                return Ok(Self { child, report });
            }
        }
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        child.wait().unwrap();
        Err(message)
    }

    /// Lets it end.
    fn release(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn memory_lives_while_its_holder_does() {
    let folder = node("");
    let holder = Holder::start(&folder, "memory").unwrap();
    assert_eq!(holder.report["held_by"], holder.child.id());
    let path = holder.report["path"].as_str().unwrap().to_owned();
    assert!(path.starts_with(&format!("/proc/{}/fd/", holder.child.id())));
    assert_eq!(document_in(path.as_ref()), DOCUMENT);
    assert_eq!(holder.report["sha256"], sha256sum(&path));
    let mut options = std::fs::File::options();
    if let Ok(file) = options.write(true).open(&path) {
        std::os::unix::fs::FileExt::write_at(&file, b"x", 0).unwrap_err();
    }
    // Whoever has it open keeps it.
    let mut open = std::fs::File::open(&path).unwrap();
    holder.release();
    assert!(!Path::new(&path).exists());
    let mut image = Vec::new();
    open.read_to_end(&mut image).unwrap();
    config_image::decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
    assert_eq!(folder.count("run"), 0);
}

#[test]
fn privileged_a_loop_device_lives_while_its_holder_does() {
    let folder = node("");
    let holder = match Holder::start(&folder, "loop") {
        Ok(holder) => holder,
        Err(message) => return test_command::skip(&format!("no loop device: {message}")),
    };
    let path = holder.report["path"].as_str().unwrap().to_owned();
    assert!(path.starts_with("/dev/loop"), "{path}");
    assert_eq!(document_in(path.as_ref()), DOCUMENT);
    let inspected = run(&["inspect", "--json", &path]);
    assert_eq!(inspected.json()["sha256"], holder.report["sha256"]);
    assert_eq!(inspected.json()["source_bytes"], holder.report["size"]);
    let name = path.trim_start_matches("/dev/");
    let attribute = |attribute: &str| {
        let text = std::fs::read_to_string(format!("/sys/block/{name}/{attribute}"));
        text.unwrap().trim().to_owned()
    };
    assert_eq!((attribute("ro"), attribute("loop/autoclear")), ("1".into(), "1".into()));
    holder.release();
}

/// Nobody learns where it is, so nobody would remove it.
#[test]
fn what_cannot_be_told_does_not_stay() {
    for more in
        [&["--transport", "file"][..], &["--transport", "vhost-user", "--socket", "disk.sock"]]
    {
        let folder = node("");
        let output = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
            .args(attach_arguments(&folder, more))
            .current_dir(folder.path("bundle"))
            .stdout(std::fs::File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{stderr}");
        assert!(stderr.contains("print the outcome"), "{stderr}");
        let images = folder.path("run/kata-containers/shared/initdata");
        assert!(!images.join("box-1").exists());
        assert!(!folder.path("bundle/disk.sock").exists());
    }
}

#[test]
fn a_vhost_user_device_is_served_to_one_vmm() {
    let folder = node("transport = \"vhost-user\"\n");
    let socket = folder.text("disk.sock");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
        .args(attach_arguments(&folder, &["--socket", &socket]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    for line in BufReader::new(child.stdout.as_mut().unwrap()).lines() {
        text.push_str(&line.unwrap());
        if text.ends_with('}') {
            break;
        }
    }
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["transport"], "vhost-user");
    assert_eq!((&report["path"], &report["held_by"]), (&json!(socket), &json!(child.id())));
    assert_eq!(Path::new(&socket).metadata().unwrap().mode() & 0o7777, 0o600);
    // A VMM that connects and goes away. What a real one reads is tested where the device is.
    drop(std::os::unix::net::UnixStream::connect(&socket).unwrap());
    let output = child.wait_with_output().unwrap();
    let events = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{events}");
    assert!(
        events.lines().all(|line| line.starts_with("kata-configdev: sandbox box-1: ")),
        "{events}"
    );
    assert!(SECRETS.iter().all(|secret| !events.contains(secret) && !text.contains(secret)));

    // The path is taken now.
    let again = attach(&folder, &["--socket", &socket]);
    again.fails(69, &["listen at"]);
    // Until it is taken away; what is no socket stays.
    let run_root = folder.text("run");
    let detach = |socket: &str| {
        let named = ["detach", "--sandbox-id", "box-1", "--run-root", &run_root];
        run(&[&named[..], &["--socket", socket]].concat())
    };
    let other = folder.file("other", "");
    detach(&other).fails(64, &["it is no socket"]);
    assert!(folder.path("other").exists());
    detach(&socket).prints(&[&format!("{socket}: removed\n")]);
    assert!(!Path::new(&socket).exists());
    detach(&socket).prints(&[&format!("{socket}: nothing to remove\n")]);
}
