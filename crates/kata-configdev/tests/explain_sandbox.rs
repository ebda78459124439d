//! `kata-configdev explain --sandbox`: a sandbox gets just what it says. The pages
//! `cases/sandbox.md` and `cases/clouds.md` have what it says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use config_image::Magic;
use registry_config::{Credentials, Document, Match, RegistryHost};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Folder, Run, run};

/// The node of the page, which keeps answers in this directory if that is in memory.
fn node(run_root: &TempDir) -> Folder {
    let node = Folder::copy("tests/cases/sandbox");
    let settings = String::from_utf8(node.read("settings.toml")).unwrap();
    let settings = settings.replace("@/absent", run_root.path().to_str().unwrap());
    node.file("settings.toml", settings.replace('@', &node.text(".")));
    node
}

fn explain(node: &Folder, arguments: &[&str]) -> Run {
    let (settings, bundle) = (node.text("settings.toml"), node.text("bundle"));
    let fixed = ["explain", "--settings", &settings, "--sandbox", &bundle];
    let run = run(&[&fixed, arguments].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    run
}

fn attach(node: &Folder) -> Run {
    let (settings, bundle) = (node.text("settings.toml"), node.text("bundle"));
    let attached =
        run(&["attach", "--settings", &settings, "--bundle", &bundle, "--sandbox-id", "s1"]);
    assert_eq!(attached.code, 0, "{}", attached.stderr);
    attached
}

/// The part about one registry.
fn of<'a>(report: &'a Value, registry: &str) -> &'a Value {
    let mut all = report["registries"].as_array().unwrap().iter();
    all.find(|one| one["registry"] == registry).unwrap_or_else(|| panic!("{registry}: {report}"))
}

/// The report and the image that a guest would read, side by side.
#[test]
fn a_sandbox_gets_what_was_explained() {
    let disk = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let node = node(&disk);
    let report = explain(&node, &["--json"]).json();
    let image = std::fs::read(attach(&node).json()["path"].as_str().unwrap()).unwrap();
    let image = config_image::decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
    let document = Document::parse(&image.document).unwrap().document;
    let mut offered = 0;
    for registry in [
        "own.corp",
        "a.team.corp",
        "hub.corp",
        "reg.lab",
        "reg.example",
        "dead.example",
        "path.example",
    ] {
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

/// The log of a sandbox and `explain` told different losses, and could contradict each other.
#[test]
fn the_log_of_a_sandbox_and_explain_say_the_same() {
    let disk = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let node = node(&disk);
    let attached = attach(&node);
    let before = "kata-configdev: sandbox s1: warning: ";
    let logged = attached.stderr.lines();
    let logged: Vec<_> = logged.map(|line| line.strip_prefix(before).unwrap()).collect();
    let explained = explain(&node, &[]).stdout;
    let labels = ["skipped", "left out", "beaten", "change", "exposed"];
    let mut registry = "";
    let mut told = Vec::new();
    for line in explained.split("\n\n").flat_map(|part| part.lines().enumerate()) {
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
            let about = line.strip_prefix(source).and_then(|rest| rest.strip_suffix(why));
            about.is_some_and(|about| {
                about.trim_matches([':', ' ', '.']) == registry.trim_matches('.')
            })
        };
        assert!(logged.iter().any(|line| is_same(&line)), "{registry}: {text}: {logged:#?}");
    }
}

#[test]
fn an_answer_is_kept_for_the_next_sandbox() {
    let Ok(memory) = TempDir::new_in("/dev/shm") else {
        return test_command::skip("there is no /dev/shm");
    };
    let node = node(&memory);
    let fresh = "source      credential provider second, fresh answer, kept for 10m\n";
    explain(&node, &["reg.example/app"]).prints(&[fresh]);
    let report = explain(&node, &["--json"]).json();
    let answer = &of(&report, "reg.example")["source"]["answer"];
    assert_eq!(answer["answer"], "kept");
    assert!((1..=600).contains(&answer["expires_in_secs"].as_u64().unwrap()), "{answer}");
    let kept = "asked       credential provider second: answer kept from before, for ";
    explain(&node, &["reg.example/app"]).prints(&[kept]);
}
