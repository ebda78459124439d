//! `kata-configdev explain --sandbox`: which source wins for each registry, and that a sandbox gets
//! just that.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod command;

use std::path::Path;

use command::{Folder, Run, run};
use config_image::Magic;
use kata_configdev::disk::Device;
use kata_configdev::scratch_disk::ScratchDisk;
use kata_configdev::settings::Settings;
use puller_config::{Credentials, Document, Match, RegistryHost};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The document of the node; the lines are those that the command names.
const DOCUMENT: &str = "\
[registries.\"own.corp\"]
username = \"robot\"
password = \"hunter2-password\"

[registries.'.Team.corp.']
auth = \"cHVsbGVyOmh1bnRlcjItYXV0aA==\"

[registries.\"hub.corp\"]
mirror = \"https://mirror.corp/\\u0068ub\"

[registries.\".lab\"]
ca-certs = \"none\"
";

const REGISTRIES: [&str; 7] = [
    "own.corp",
    "a.team.corp",
    "hub.corp",
    "reg.lab",
    "reg.example",
    "dead.example",
    "path.example",
];

/// A node with plugins that are real programs.
struct Node {
    folder: Folder,
    listed: String,
    document: Option<String>,
    /// More tables of the settings.
    tables: String,
    run_root: String,
    /// Below what was built, which is on a disk where the temporary directory may be in memory.
    _disk: TempDir,
}

impl Node {
    fn new() -> Self {
        let folder = Folder::new();
        for name in ["bin", "bundle"] {
            std::fs::create_dir(folder.path(name)).unwrap();
        }
        let disk = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let node = Self {
            document: Some(folder.file("document.toml", DOCUMENT)),
            // On a disk, where nothing is kept.
            run_root: disk.path().to_str().unwrap().into(),
            tables: String::new(),
            _disk: disk,
            listed:
                "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
                    .into(),
            folder,
        };
        node.spec("{}");
        node
    }

    /// A node with one plugin of each kind.
    fn full() -> Self {
        let mut node = Self::new();
        node.add(
            "good",
            "'*.corp', '*.*.corp', '*.lab', '*.example'",
            &answer("*.*", "*.*.*"),
            "",
        );
        node.add("second", "'*.example'", &answer("reg.example", "x"), "");
        let noise = "echo hunter2-token; echo hunter2-token >&2; exit 9";
        node.add("bad", "dead.example", &format!("sh -c '{noise}'"), "");
        node.add(
            "path",
            "path.example",
            &answer("path.example/team", "path.example/Other"),
            "",
        );
        node.add(
            "token",
            "reg.example",
            "exit 1",
            "tokenAttributes: \
        {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: false}",
        );
        node
    }

    fn add(&mut self, name: &str, images: &str, script: &str, more: &str) {
        self.listed += &format!(
            "- name: {name}\n  matchImages: [{images}]\n  defaultCacheDuration: 10m\n  apiVersion: \
            credentialprovider.kubelet.k8s.io/v1\n"
        );
        if !more.is_empty() {
            self.listed += &format!("  {more}\n");
        }
        let file = format!("bin/{name}");
        let text = format!("#!/bin/sh\n{script}\n");
        self.folder.program(&file, "755", &text);
    }

    fn spec(&self, annotations: &str) {
        let text = format!(r#"{{"ociVersion":"1.1.0","annotations":{annotations}}}"#);
        self.folder.file("bundle/config.json", text);
    }

    fn annotate(&self, value: &str) {
        let key = "io.katacontainers.config.runtime.imagepuller_config";
        self.spec(&json!({ key: value }).to_string());
    }

    fn settings(&self) -> String {
        let listing = self.folder.file("providers.yaml", &self.listed);
        let document = self
            .document
            .as_ref()
            .map(|path| format!("document = {path:?}\n"));
        let text = format!(
            "{}transport = \"file\"\nrun-root = {:?}\nannotation-allow = \
            [{:?}]\n[credential-providers]\nconfig = {listing:?}\n\
             bin-dir = {:?}\nregistries = {REGISTRIES:?}\ndeadline-secs = 50\n{}",
            document.unwrap_or_default(),
            self.run_root,
            self.folder.path("allowed"),
            self.folder.path("bin"),
            self.tables,
        );
        self.folder.file("settings.toml", text)
    }

    fn explain(&self, arguments: &[&str]) -> Run {
        let (settings, bundle) = (self.settings(), self.folder.text("bundle"));
        let fixed = ["explain", "--settings", &settings, "--sandbox", &bundle];
        let run = run(&[&fixed, arguments].concat());
        // What plugins say is nobody's, not even the user name.
        assert!(!run.stdout.contains("plugin-user") && !run.stderr.contains("plugin-user"));
        run
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let run = self.explain(&[&["--json"], arguments].concat());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        run.json()
    }

    /// The text about one registry, or what is said before the first.
    fn text(&self, registry: &str) -> String {
        let run = self.explain(&[]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        let mut parts = run.stdout.split("\n\n");
        if registry.is_empty() {
            return parts.next().unwrap().into();
        }
        let first = format!("{registry}\n");
        let part = parts.find_map(|part| part.strip_prefix(&first));
        part.unwrap_or_else(|| panic!("{registry}: {}", run.stdout))
            .trim_end()
            .into()
    }
}

/// A script that answers for two keys.
fn answer(one: &str, other: &str) -> String {
    let pair = r#"{"username":"plugin-user","password":"hunter2-token"}"#;
    format!(
        "echo '{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
         \"cacheKeyType\":\"Registry\",\"auth\":{{\"{one}\":{pair},\"{other}\":{pair}}}}}'"
    )
}

/// The part about one registry.
fn of<'a>(report: &'a Value, registry: &str) -> &'a Value {
    let mut all = report["registries"].as_array().unwrap().iter();
    all.find(|one| one["registry"] == registry)
        .unwrap_or_else(|| panic!("{registry}: {report}"))
}

#[test]
fn people_see_who_wins_and_why() {
    let node = Node::full();
    let file = node.folder.text("document.toml");
    assert_eq!(
        node.text(""),
        format!(
            "sandbox     {}\n\
             document    {file}: the settings name it, and the pod no other\n\
             providers   asked\n\
             skipped     credential provider token: it wants a service account's token, which only \
             the kubelet has, and is not asked",
            node.folder.text("bundle")
        )
    );
    let asked = "asked       credential provider good: fresh answer, not kept: run-root is not in \
        memory or full";
    let unneeded = "asked       credential provider good: not asked, because the document has \
        credentials";
    for (registry, text) in [
        (
            "own.corp",
            format!(
                "credentials user name and password, user \"robot\"\n\
                 source      {file}:1: entry \"own.corp\"\n\
                 because     the document has credentials for it\n\
                 {unneeded}"
            ),
        ),
        (
            "a.team.corp",
            format!(
                "credentials user name and password, user \"puller\"\n\
                 source      {file}:5: entry \".Team.corp.\"\n\
                 because     the entry \".Team.corp.\" holds for it and has credentials\n\
                 {unneeded}"
            ),
        ),
        (
            ".Team.corp.",
            format!(
                "credentials user name and password, user \"puller\"\n\
                 source      {file}:5: entry \".Team.corp.\"\n\
                 because     the document has credentials for it"
            ),
        ),
        (
            "reg.lab",
            format!(
                "credentials user name and password\n\
                 source      credential provider good, fresh answer, not kept: run-root is not in \
                 memory or full\n\
                 because     the document's entry \".lab\" has no credentials; its other settings \
                 hold for the new entry too\n\
                 {asked}"
            ),
        ),
        (
            "dead.example",
            "credentials user name and password\n\
             source      credential provider good, fresh answer, not kept: run-root is not in \
             memory or full\n\
             because     the document has no entry for it"
                .to_owned(),
        ),
    ] {
        let shown = node.text(registry);
        assert!(
            shown.starts_with(&text),
            "{registry}: {shown}\nnot:\n{text}"
        );
    }
    let dead = node.text("dead.example");
    assert!(
        dead.contains("asked       credential provider bad: no answer\n"),
        "{dead}"
    );
    assert!(
        dead.contains(
            "\nskipped     credential provider bad: it failed with exit code 9\nskipped     \
             credential provider second: none of the keys of its answer is for it, so it adds no \
             credentials\nchange      credential provider good: with an entry of its own"
        ),
        "{dead}"
    );
    let hub = node.text("hub.corp");
    assert!(
        hub.starts_with("credentials none, the pull is anonymous\nsource      nobody\n")
            && hub.contains(
                "left out    credential provider good: the document's \
            entry \"hub.corp\" names a mirror"
            ),
        "{hub}"
    );
    let lab = node.text(".lab");
    assert!(
        lab.ends_with(
            "because     the document's entry has no credentials, and no credential \
    provider is asked about it"
        ),
        "{lab}"
    );
}

#[test]
fn programs_get_the_same_facts() {
    let node = Node::full();
    let report = node.json(&[]);
    let file = node.folder.text("document.toml");
    assert_eq!(
        report["document"],
        json!({"path": file, "chosen_by": "node"})
    );
    assert_eq!(report["providers"], "asked");
    assert_eq!(report["findings"][0]["source"], "credential provider token");
    assert_eq!(
        of(&report, "a.team.corp")["source"],
        json!({"kind": "document", "file": file, "line": 5, "entry": ".Team.corp."})
    );
    let reg = of(&report, "reg.example");
    assert_eq!(
        reg["source"],
        json!({"kind": "credential-provider", "name": "credential provider \
        second", "answer": {"answer": "fresh", "expires_in_secs": null}}),
        "the literal key comes before the glob"
    );
    assert_eq!(
        reg["losers"],
        json!([{"source": "credential provider good", "why": "an earlier offer says the same",
        "lost": false}])
    );
    assert_eq!(
        reg["credentials"],
        json!({"kind": "basic", "username": null})
    );
    assert_eq!(reg["asked"].as_array().unwrap().len(), 2);
    let hub = of(&report, "hub.corp");
    assert_eq!(
        (&hub["source"], &hub["losers"][0]["lost"]),
        (&Value::Null, &json!(true))
    );
    let path = of(&report, "path.example");
    assert!(
        path["findings"][0]["text"]
            .as_str()
            .unwrap()
            .contains("have a path that is no")
    );
    assert_eq!(path["source"]["name"], "credential provider good");
    let team = of(&report, "path.example/team");
    assert_eq!(team["source"]["name"], "credential provider path");
    let change = of(&report, "path.example")["change"].as_str().unwrap();
    assert!(change.contains("certificate authorities"), "{change}");
}

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
fn an_image_is_explained_by_the_document_of_its_sandbox() {
    let node = Node::full();
    let run = node.explain(&["reg.lab/team/app:1"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.starts_with("reg.lab.\n"), "{}", run.stdout);
    for line in [
        "loses       \".lab\": a host's own name, and a longer suffix, are more specific\n",
        "roots       none: \"ca-certs\" of entry \"reg.lab.\" holds no certificate and so forbids \
        the host\n",
        "source      credential provider good, fresh answer, not kept: run-root is not in memory \
        or full\n",
        "document    ",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    let report = node.json(&["sub.own.corp:5000/app"]);
    assert_eq!(
        (&report["explanation"]["key"], &report["registries"]),
        (&Value::Null, &json!([]))
    );
    let report = node.json(&["own.corp:5000/app"]);
    assert_eq!(report["explanation"]["key"], "own.corp");
    assert_eq!(report["registries"][0]["source"]["line"], 1);
    assert_eq!(report["registries"].as_array().unwrap().len(), 1);
    // Credentials that a mirror is lent or has are as nameless as others.
    let mut node = Node::full();
    let text = "[registries.\"own.corp\"]\nmirror \
    = \"https://reg.example\"\n[registries.\"reg.example\"]\n";
    node.document = Some(node.folder.file("mirror.toml", text));
    let report = node.json(&["own.corp/app"]);
    let mirror = &report["explanation"]["mirror"];
    assert_eq!(
        mirror["credentials"],
        json!({"kind": "basic", "username": null})
    );
}

#[test]
fn the_pod_chooses() {
    let node = Node::full();
    std::fs::create_dir(node.folder.path("allowed")).unwrap();
    let pod = node.folder.file(
        "allowed/pod.toml",
        "\n[registries.\"own.corp\"]\nregistrytoken = \"hunter2-token\"\n",
    );
    node.annotate(&pod);
    let report = node.json(&[]);
    assert_eq!(report["document"], json!({"path": pod, "chosen_by": "pod"}));
    assert_eq!(of(&report, "own.corp")["source"]["line"], 2);
    assert_eq!(
        of(&report, "own.corp")["credentials"]["kind"],
        "registrytoken"
    );

    node.annotate("");
    let report = node.json(&["own.corp/app"]);
    assert_eq!(
        (&report["document"], &report["registries"]),
        (&Value::Null, &json!([]))
    );
    assert_eq!(report["explanation"]["rule"], "defaults");
    let run = node.explain(&[]);
    assert!(
        run.stdout
            .contains("no disk: the pod's annotation is empty"),
        "{}",
        run.stdout
    );

    std::fs::create_dir(node.folder.path("config.d")).unwrap();
    node.folder
        .file("config.d/99-off.toml", "enabled = false\n");
    node.spec("{}");
    node.explain(&[])
        .prints(&["no disk: the settings say enabled = false"]);
}

#[test]
fn where_the_node_has_no_document_nobody_is_asked() {
    let node = Node::full();
    node.folder
        .file("document.toml", "node-error = \"no such file\"\n");
    let says = "the node has no configuration and nothing is pulled without it; the node says: no \
    such file";
    let text = node.explain(&[]);
    assert_eq!((text.code, text.stderr.as_str()), (65, ""));
    assert_eq!(
        text.stdout.split_once("providers ").unwrap().1,
        format!("  not asked, because every pull is refused\nrefused     {says}\n")
    );
    let json = node.explain(&["--json"]);
    json.ends(65);
    assert_eq!(json.json()["registries"], json!([]));
    assert_eq!(json.json()["refused"], says);
    let image = node.explain(&["--json", "reg.example/app"]);
    image.ends(65);
    assert_eq!(image.json()["registries"], json!([]));
    assert_eq!(image.json()["explanation"]["refused"], says);
}

#[test]
fn providers_alone_make_a_document_unless_left_out() {
    let mut node = Node::full();
    node.document = None;
    let report = node.json(&[]);
    assert_eq!(
        report["document"],
        json!({"path": null, "chosen_by": "providers"})
    );
    assert_eq!(
        of(&report, "own.corp")["source"]["name"],
        "credential provider good"
    );
    let report = node.json(&["--no-providers"]);
    assert_eq!(
        (&report["document"], &report["providers"]),
        (&Value::Null, &json!("left out"))
    );
    // No program is started.
    let mut node = Node::new();
    let trace = node.folder.text("trace");
    node.add("tracer", "'*.example'", &format!("touch {trace}"), "");
    let report = node.json(&["--no-providers"]);
    assert_eq!(report["registries"].as_array().unwrap().len(), 4);
    assert!(!Path::new(&trace).exists());
    node.json(&[]);
    assert!(Path::new(&trace).exists());
    // Another document than that of the settings, as for attach.
    let other = node
        .folder
        .file("other.toml", "[registries.\"other.corp\"]\n");
    let report = node.json(&["--no-providers", "--config", &other]);
    assert_eq!(report["document"]["path"], other);
}

#[test]
fn an_answer_is_kept_for_the_next_sandbox() {
    let Ok(memory) = TempDir::new_in("/dev/shm") else {
        assert!(
            std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(),
            "no /dev/shm"
        );
        eprintln!("skipped: no /dev/shm");
        return;
    };
    let mut node = Node::new();
    node.run_root = memory.path().to_str().unwrap().into();
    node.add("good", "reg.example", &answer("reg.example", "x"), "");
    let text = node.text("reg.example");
    assert!(
        text.contains("source      credential provider good, fresh answer, kept for 10m\n"),
        "{text}"
    );
    let report = node.json(&[]);
    let answer = &of(&report, "reg.example")["source"]["answer"];
    assert_eq!(answer["answer"], "kept");
    assert!(
        (1..=600).contains(&answer["expires_in_secs"].as_u64().unwrap()),
        "{answer}"
    );
    let text = node.text("reg.example");
    assert!(
        text.contains("asked       credential provider good: answer kept from before, for "),
        "{text}"
    );
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
        &["explain", "reg.corp/app"],
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

/// Nobody could ask the providers without a sandbox.
#[test]
fn providers_are_asked_without_a_sandbox() {
    let mut node = Node::full();
    let settings = node.settings();
    let asked = run(&["providers", "--settings", &settings]);
    // One of them fails.
    asked.ends(69);
    asked.prints(&[
        &format!("config      {}\n", node.folder.text("providers.yaml")),
        "\n\ndead.example\n",
        "asked       credential provider bad: no answer\n",
        "skipped     credential provider bad: it failed with exit code 9\n",
        "asked       credential provider good: not asked, because the document has credentials\n",
    ]);
    assert!(!asked.stdout.contains("plugin-user") && !asked.stdout.contains("hunter2"));
    assert!(
        !asked.stdout.contains("\n.lab\n"),
        "nobody is asked about it"
    );
    let json = run(&["providers", "--json", "--settings", &settings]);
    json.ends(69);
    let report = json.json();
    assert_eq!(
        of(&report, "reg.lab")["source"]["name"],
        "credential provider good"
    );
    assert_eq!(report["document"], node.document.clone().unwrap());

    // The registries of the kubelet's own configuration.
    node.listed =
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n".into();
    node.document = None;
    node.add(
        "good",
        "reg.example, 'gcr.io/team', '*.pkg.dev'",
        &answer("reg.example", "gcr.io"),
        "",
    );
    let settings = node.settings();
    let text = std::fs::read_to_string(&settings).unwrap();
    let named = format!("registries = {REGISTRIES:?}");
    let text = text.replace(&named, "registries = \"matchImages\"");
    let settings = node.folder.file("settings.toml", text);
    let json = run(&["providers", "--json", "--settings", &settings]);
    assert_eq!(
        (json.code, json.stderr.as_str()),
        (0, ""),
        "{}",
        json.stdout
    );
    let report = json.json();
    let registries = report["registries"].as_array().unwrap().iter();
    let names: Vec<_> = registries
        .map(|one| one["registry"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["gcr.io/team", "reg.example", "gcr.io"], "{report}");
    // Nobody to ask is a mistake of the settings.
    let settings = node.folder.file("settings.toml", "transport = \"file\"\n");
    let none = run(&["providers", "--settings", &settings]);
    none.ends(65);
    none.says(&["registries = \"matchImages\""]);
}

#[test]
fn what_is_left_out_for_a_list_is_shown() {
    let node = Node::full();
    let key = "io.katacontainers.config.runtime.imagepuller_registries";
    node.spec(&json!({ key: "own.corp, reg.example/app" }).to_string());
    let report = node.json(&[]);
    let only = &report["only"];
    assert_eq!(only["registries"], json!(["own.corp", "reg.example/app"]));
    assert_eq!(only["by"], json!([key]));
    let why = "no pull of the listed registries uses them";
    assert_eq!(
        only["removed"],
        json!([{"name": ".Team.corp.", "what": "credentials", "why": why}])
    );
    assert_eq!(of(&report, "own.corp")["credentials"]["username"], "robot");
    assert_eq!(of(&report, ".Team.corp.")["source"], Value::Null);
    let asked = &of(&report, "reg.example")["asked"];
    assert_eq!(asked[0]["repositories"], "app", "{asked}");
    let head = node.text("");
    for line in [
        format!("only        own.corp, reg.example/app: by the pod's annotation {key}"),
        format!("left out    credentials of \".Team.corp.\": {why}"),
    ] {
        assert!(head.lines().any(|one| one == line), "{line}: {head}");
    }
    let team = node.text(".Team.corp.");
    assert!(
        team.contains("because     its credentials are left out"),
        "{team}"
    );

    // Without a list there is nothing to say.
    node.spec("{}");
    assert_eq!(node.json(&[])["only"], Value::Null);
    assert!(!node.text("").contains("left out"));
}
