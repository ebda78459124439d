//! What is explained is what the wrapper does, and says.

use std::path::Path;

use config_image::Magic;
use kata_configdev::disk::Device;
use kata_configdev::scratch_disk::ScratchDisk;
use kata_configdev::settings::Settings;
use puller_config::{Credentials, Document, Match, RegistryHost};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::run;
use crate::explain_sandbox::node::{Node, REGISTRIES, of};

/// The report and the image that a guest would read, side by side.
#[test]
fn a_sandbox_gets_what_was_explained() {
    let node = Node::full();
    let report = node.json(&[]);
    let attached = run(&[
        "attach",
        "--settings",
        &node.settings(),
        "--bundle",
        &node.folder.text("bundle"),
        "--sandbox-id",
        "s1",
    ]);
    assert_eq!(attached.code, 0, "{}", attached.stderr);
    let image = std::fs::read(attached.json()["path"].as_str().unwrap()).unwrap();
    let image = config_image::decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
    let document = Document::parse(&image.document).unwrap().document;
    let mut offered = 0;
    for registry in REGISTRIES {
        let host = RegistryHost::parse(registry).unwrap();
        let user = match document.registries.entry_for(&host) {
            Match::Entry { entry, .. } => match &entry.credentials {
                Credentials::Basic { username, .. } => Some(username.as_str()),
                _ => None,
            },
            Match::Defaults => None,
        };
        let expected = match of(&report, registry)["source"]["kind"].as_str() {
            Some("credential-provider") => Some("plugin-user"),
            Some(_) => of(&report, registry)["credentials"]["username"].as_str(),
            None => None,
        };
        assert_eq!(user, expected, "{registry}");
        offered += usize::from(user == Some("plugin-user"));
    }
    assert_eq!(offered, 4);
}

#[test]
fn what_would_fail_the_sandbox_fails_the_command() {
    let node = Node::full();
    node.annotate("/etc/shadow");
    let refused = node.explain(&[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (65, ""));
    assert!(
        refused.stderr.contains("annotation-allow"),
        "{}",
        refused.stderr
    );
    node.spec("{}");
    node.folder.file(
        "document.toml",
        "[registries.a]\npasword = \"hunter2-password\"\n",
    );
    let invalid = node.explain(&["--json"]);
    assert_eq!((invalid.code, invalid.stdout.as_str()), (65, ""));
    assert!(invalid.stderr.contains("pasword"), "{}", invalid.stderr);
    for wrong in [
        &["explain"][..],
        &["explain", "--config", "x"],
        &["explain", "--config", "x", "--no-providers", "reg.corp/app"],
        &[
            "explain",
            "--config",
            "x",
            "--settings",
            "y",
            "reg.corp/app",
        ],
        &[
            "explain",
            "--sandbox",
            "/",
            "robot:hunter2-password@reg.corp/app",
        ],
    ] {
        assert_eq!(run(wrong).code, 64, "{wrong:?}");
    }
    // Broken lists of plugins do not fail it, as they fail no sandbox.
    let mut node = Node::full();
    node.listed += "- hunter2-token";
    let report = node.json(&[]);
    assert!(
        report["findings"][0]["text"]
            .as_str()
            .unwrap()
            .ends_with("no plugin is asked")
    );
    assert_eq!(of(&report, "own.corp")["source"]["kind"], "document");
    assert_eq!(
        of(&report, "reg.example")["why"],
        "the document has none, and no credential provider gives it any"
    );
}

/// The command said nothing of this disk, and 0 where it refuses every sandbox.
#[test]
fn a_scratch_disk_is_told_and_so_is_what_refuses_it() {
    let mut node = Node::new();
    assert_eq!(node.json(&[])["scratch"], Value::Null);
    assert!(!node.text("").contains("scratch"));

    let directory = Path::new(&node.run_root).join("images");
    let tables = |size: &str, directory: &Path| {
        format!("[scratch]\nsize = {size:?}\nmax-total = \"64T\"\ndirectory = {directory:?}\n")
    };
    let small = tables("512M", &directory).replace("64T", "512M");
    node.tables = small.clone();
    let row = format!("scratch     536870912 bytes in {}", directory.display());
    // Twice: nothing is held that a sandbox would have to wait for.
    for _ in 0..2 {
        assert!(node.text("").lines().any(|line| line == row));
    }
    let expected = json!({"bytes": 512 << 20, "directory": directory, "fault": null});
    assert_eq!(node.json(&["own.corp/app"])["scratch"], expected);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    let shares = Path::new(&node.run_root).join("kata-configdev/scratch");
    let names = std::fs::read_dir(&shares).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"]);

    let settings = Settings::load(node.settings().as_ref()).unwrap();
    let device = Device::of_machine("q35").unwrap();
    let living = ScratchDisk::make(&settings.scratch, &settings.run_root, device);
    let living = living.unwrap().unwrap();
    let in_memory = TempDir::new_in("/dev/shm").unwrap();
    for (tables, words) in [
        (small, "other sandboxes have 536870912 of the 536870912"),
        (tables("32T", &directory), "bytes free"),
        (tables("1G", in_memory.path()), "is in memory"),
    ] {
        node.tables = tables;
        for image in [&[][..], &["own.corp/app"]] {
            let run = node.explain(image);
            assert_eq!((run.code, run.stderr.as_str()), (65, ""), "{}", run.stdout);
            let start = "scratch     none, so no sandbox starts: failed to make a scratch disk";
            let mut lines = run.stdout.lines();
            let line = lines.find(|line| line.starts_with(start));
            assert!(
                line.is_some_and(|line| line.contains(words)),
                "{}",
                run.stdout
            );
        }
        let run = node.explain(&["--json"]);
        let fault = run.json()["scratch"]["fault"].clone();
        assert!(
            fault.as_str().is_some_and(|fault| fault.contains(words)),
            "{fault}"
        );
        assert_eq!(run.code, 65);
    }
    drop(living);
    node.folder
        .file("config.d/99-off.toml", "enabled = false\n");
    let report = node.json(&[]);
    assert_eq!(
        report["scratch"],
        Value::Null,
        "of a sandbox that gets nothing"
    );
}

/// The log of a sandbox and `explain` told different losses, and could contradict each other.
#[test]
fn the_log_of_a_sandbox_and_explain_say_the_same() {
    let node = Node::full();
    let (settings, bundle) = (node.settings(), node.folder.text("bundle"));
    let attached = run(&[
        "attach",
        "--settings",
        &settings,
        "--bundle",
        &bundle,
        "--sandbox-id",
        "s1",
    ]);
    assert_eq!(attached.code, 0, "{}", attached.stderr);
    let before = "kata-configdev: sandbox s1: warning: ";
    let logged = attached.stderr.lines();
    let logged: Vec<_> = logged
        .map(|line| line.strip_prefix(before).unwrap())
        .collect();
    let explained = node.explain(&[]).stdout;
    let labels = ["skipped", "left out", "beaten", "change", "exposed"];
    let mut registry = "";
    let mut told = Vec::new();
    for line in explained
        .split("\n\n")
        .flat_map(|part| part.lines().enumerate())
    {
        match line {
            (0, name) if !name.starts_with("sandbox") => registry = name,
            (_, line) => {
                let Some((label, text)) = line.split_at_checked(12) else {
                    continue;
                };
                if labels.contains(&label.trim_end()) {
                    told.push((registry, text));
                }
            }
        }
    }
    assert_eq!(told.len(), logged.len(), "{explained}\n{logged:#?}");
    assert!(told.len() > 5, "{told:?}");
    for (registry, text) in told {
        let (source, why) = text.split_once(": ").unwrap();
        let is_same = |line: &&&str| {
            let about = line
                .strip_prefix(source)
                .and_then(|rest| rest.strip_suffix(why));
            about.is_some_and(|about| {
                about.trim_matches([':', ' ', '.']) == registry.trim_matches('.')
            })
        };
        assert!(
            logged.iter().any(|line| is_same(&line)),
            "{registry}: {text}: {logged:#?}"
        );
    }
}
