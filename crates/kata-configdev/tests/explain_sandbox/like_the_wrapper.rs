//! What is explained is what the wrapper does, and says.

use config_image::Magic;
use puller_config::{Credentials, Document, Match, RegistryHost};

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
    assert!(refused.stderr.contains("annotation-allow"), "{}", refused.stderr);
    node.spec("{}");
    node.folder.file("document.toml", "[registries.a]\npasword = \"hunter2-password\"\n");
    let invalid = node.explain(&["--json"]);
    assert_eq!((invalid.code, invalid.stdout.as_str()), (65, ""));
    assert!(invalid.stderr.contains("pasword"), "{}", invalid.stderr);
    for wrong in [
        &["explain"][..],
        &["explain", "--config", "x"],
        &["explain", "--config", "x", "--no-providers", "reg.corp/app"],
        &["explain", "--config", "x", "--settings", "y", "reg.corp/app"],
        &["explain", "--sandbox", "/", "robot:hunter2-password@reg.corp/app"],
    ] {
        assert_eq!(run(wrong).code, 64, "{wrong:?}");
    }
    // Broken lists of plugins do not fail it, as they fail no sandbox.
    let mut node = Node::full();
    node.listed += "- hunter2-token";
    let report = node.json(&[]);
    assert!(report["findings"][0]["text"].as_str().unwrap().ends_with("no plugin is asked"));
    assert_eq!(of(&report, "own.corp")["source"]["kind"], "document");
    assert_eq!(
        of(&report, "reg.example")["why"],
        "the document has none, and no credential provider gives it any"
    );
}

/// The log of a sandbox and `explain` told different losses, and could contradict each other.
#[test]
fn the_log_of_a_sandbox_and_explain_say_the_same() {
    let node = Node::full();
    let (settings, bundle) = (node.settings(), node.folder.text("bundle"));
    let attached =
        run(&["attach", "--settings", &settings, "--bundle", &bundle, "--sandbox-id", "s1"]);
    assert_eq!(attached.code, 0, "{}", attached.stderr);
    let before = "kata-configdev: sandbox s1: warning: ";
    let logged = attached.stderr.lines();
    let logged: Vec<_> = logged.map(|line| line.strip_prefix(before).unwrap()).collect();
    let explained = node.explain(&[]).stdout;
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
