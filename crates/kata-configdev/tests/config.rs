//! `kata-configdev config`: the settings that hold, and where they came from.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;

use command::{Folder, run};
use serde_json::json;

/// A folder with the settings `config.toml`, the drop-in `config.d/50-node.toml` and one document.
fn node() -> Folder {
    let folder = Folder::new();
    for name in ["config.d", "host", "host/a"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    for name in ["qemu", "small"] {
        folder.program(name, "755", "#!/bin/sh\n");
    }
    folder.file(
        "config.toml",
        format!(
            "qemu = {:?}\ndocument = {:?}\ntransport = \"file\"\n",
            folder.path("qemu"),
            folder.path("host/*/document.toml")
        ),
    );
    let drop_in = format!("qemu.microvm = {:?}\nguest-pull = true\n", folder.path("small"));
    folder.file("config.d/50-node.toml", drop_in);
    folder.file(
        "host/a/document.toml",
        "[registries.\"a.corp\"]\npassword = \"hunter2-password\"\nusername = \"x\"\n",
    );
    folder
}

#[test]
fn values_come_with_their_origin() {
    let folder = node();
    let settings = folder.text("config.toml");
    let drop_in = folder.text("config.d/50-node.toml");
    let shown = run(&["config", "--settings", &settings]);
    shown.succeeds();
    let pattern = folder.text("host/*/document.toml");
    let document = folder.text("host/a/document.toml");
    let (qemu, small) = (folder.text("qemu"), folder.text("small"));
    assert_eq!(
        shown.stdout,
        format!(
            "# {settings}\n# {drop_in}\n\
             enabled = true # built in\n\
             document = \"{pattern}\" # {settings}:2\n# matches {document}\n\
             # missing-document: a sandbox does not start without its document\n\
             # only-registries: what documents have for any registry\n\
             annotation-allow = [] # built in\n\
             without-spec = \"node\" # built in\n\
             transport = \"file\" # {settings}:3\n\
             # capacity: what the transport has by itself\n\
             run-root = \"/run\" # built in\n\
             refuse = \"auto\" # built in\n\
             guest-pull = true # {drop_in}:2\n\n\
             [qemu]\n\
             default = \"{qemu}\" # {settings}:1\n\
             microvm = \"{small}\" # {drop_in}:1\n\n\
             [credential-providers]\n\
             # config: none\n# bin-dir: none\n\
             registries = [] # built in\n\
             deadline-secs = 5 # built in\n\
             leave-to-agent = true # built in\n"
        )
    );

    // What is shown is a settings file that means the same.
    let copy = Folder::new();
    let copied = copy.file("config.toml", &shown.stdout);
    let values = |path: &str| {
        let report = run(&["config", "--json", "--settings", path]).json();
        let names = [
            "document",
            "transport",
            "capacity",
            "annotation-allow",
            "run-root",
            "without-spec",
            "refuse",
            "guest-pull",
        ];
        let values = names.map(|name| report[name]["value"].clone());
        let qemu = ["default", "microvm"].map(|name| report["qemu"][name]["value"].clone());
        (values, qemu)
    };
    assert_eq!(values(&copied), values(&settings));

    assert_eq!(values(&settings).0[2], json!(null));
    let allow = folder.file("config.d/55-allow.toml", "annotation-allow = [\"/\"]\n");
    assert_eq!(values(&settings).0[5], "fail");
    std::fs::remove_file(allow).unwrap();
    folder.file("config.d/60-room.toml", "capacity = \"64K\"\n");
    let room = folder.text("config.d/60-room.toml");
    let shown = run(&["config", "--settings", &settings]);
    let line = format!("\ncapacity = 65536 # {room}:1\n");
    shown.prints(&[&line]);
    let copied = copy.file("config.toml", &shown.stdout);
    assert_eq!(values(&copied), values(&settings));
    assert_eq!(values(&settings).0[2], json!(65536));
    std::fs::remove_file(room).unwrap();

    let off = folder.file("config.d/70-off.toml", "enabled = false\n");
    let shown = run(&["config", "--settings", &settings]);
    let line = format!("\nenabled = false # {off}:1\n# so nothing below has an effect but qemu\n");
    shown.prints(&[&line]);
    std::fs::remove_file(off).unwrap();

    let report = run(&["config", "--json", "--settings", &settings]).json();
    assert_eq!(report["files"], json!([settings, drop_in]));
    assert_eq!(
        report["document"],
        json!({"value": pattern, "source": {"path": settings, "line": 2}, "file": document})
    );
    assert_eq!(report["annotation-allow"], json!({"value": [], "source": null}));
    assert_eq!(
        report["qemu"]["microvm"],
        json!({"value": small, "source": {"path": drop_in, "line": 1}})
    );
}

/// Each namespace's document is looked at, and what is wrong with one is told before its pods hear.
#[test]
fn documents_by_namespace_are_listed_and_looked_at() {
    let folder = node();
    std::fs::create_dir(folder.path("teams")).unwrap();
    let (settings, pattern) = (folder.text("config.toml"), folder.text("teams/{namespace}.toml"));
    let qemu = folder.path("qemu");
    let text = format!("qemu = {qemu:?}\ndocument = {pattern:?}\nengine = \"cri-o\"\n");
    folder.file("config.toml", &text);
    for (name, text) in [
        ("team-b", "extra-env = {}\n"),
        ("team-a", ""),
        ("_other", "x = 1\n"),
        ("Team-C", "x = 1\n"),
    ] {
        folder.file(&format!("teams/{name}.toml"), text);
    }
    let shown = run(&["config", "--settings", &settings]);
    shown.succeeds();
    shown.prints(&[
        &format!(
            "document = \"{pattern}\" # {settings}:2\n\
             # namespaces with a document: team-a, team-b\n"
        ),
        &format!("engine = \"cri-o\" # {settings}:3\nnamespace-fallback = \"refuse\" # built in\n"),
        "without-spec = \"fail\" # built in\n",
    ]);
    // What is shown is a settings file that means the same.
    let copy = Folder::new();
    let copied = copy.file("config.toml", &shown.stdout);
    let report = |path: &str| run(&["config", "--json", "--settings", path]).json();
    for path in [&settings, &copied] {
        let report = report(path);
        assert_eq!(report["document"]["namespaces"], json!(["team-a", "team-b"]));
        assert_eq!(report["document"]["file"], json!(null));
        assert_eq!(report["engine"]["value"], "cri-o");
    }

    let other = folder.text("teams/_other.toml");
    for (more, file, content, rule) in [
        ("", "team-b", "x = 1\n", "teams/team-b.toml: "),
        (&*format!("namespace-fallback = {other:?}\n"), "", "", "_other.toml: "),
    ] {
        folder.file("config.toml", format!("{text}{more}"));
        let path = format!("teams/{file}.toml");
        if !file.is_empty() {
            folder.file(&path, content);
        }
        let shown = run(&["config", "--settings", &settings]);
        shown.ends(65);
        shown.says(&[rule]);
        folder.file("teams/team-b.toml", "");
    }
    std::fs::remove_dir_all(folder.path("teams")).unwrap();
    folder.file("config.toml", &text);
    let shown = run(&["config", "--settings", &settings]);
    shown.ends(65);
    shown.says(&["/teams: No such file"]);
    folder.file("config.toml", format!("{text}missing-document = \"late\"\n"));
    run(&["config", "--settings", &settings]).succeeds();
}

#[test]
fn lists_of_registries_are_shown_with_their_origin() {
    let folder = node();
    let settings = folder.text("config.toml");
    let lists = folder.file(
        "config.d/60-lists.toml",
        "engine = \"cri-o\"\nonly-registries = [\"reg.corp\"]\n[namespaces.team-a]\n\
        only-registries = [\"reg.corp/team-a\"]\n",
    );
    let shown = run(&["config", "--settings", &settings]);
    shown.prints(&[
        &format!(
            "\nonly-registries = [\"reg.corp\"] # {lists}:2\n# leaves out credentials of \"a.corp\"\n"
        ),
        &format!("\n[namespaces.team-a]\nonly-registries = [\"reg.corp/team-a\"] # {lists}:4\n"),
    ]);
    let copy = Folder::new();
    let copied = copy.file("config.toml", &shown.stdout);
    for path in [&copied, &settings] {
        let report = run(&["config", "--json", "--settings", path]).json();
        assert_eq!(report["only-registries"]["value"], json!(["reg.corp"]));
        let removed = &report["only-registries"]["removed"];
        assert_eq!(*removed, json!(["credentials of \"a.corp\""]));
        let team = &report["namespaces"]["team-a"]["only-registries"];
        assert_eq!(team["value"], json!(["reg.corp/team-a"]));
    }
}

/// A drop-in may add the plugins of one distribution to the registries of the main file.
#[test]
fn credential_providers_are_merged_by_key_and_looked_at() {
    let folder = node();
    let settings = folder.text("config.toml");
    let drop_in = folder.text("config.d/50-node.toml");
    let listing = folder.text("providers.yaml");
    folder.file(
        "config.toml",
        format!(
            "qemu = {:?}\n[credential-providers]\nregistries = [\"Reg.corp\", \"[::1]:5000\"]\n\
             deadline-secs = 9\n",
            folder.path("qemu")
        ),
    );
    folder.file(
        "config.d/50-node.toml",
        format!(
            "credential-providers.config = {listing:?}\ncredential-providers.bin-dir \
        = \"/opt/bin\"\n"
        ),
    );
    let listed = "apiVersion: kubelet.config.k8s.io/v1\nkind: \
    CredentialProviderConfig\nproviders:\n\
                  - {name: ecr, matchImages: [x.corp], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1,\n\
                  env: [{name: A, value: hunter2-password}]}\n";
    folder.file("providers.yaml", listed);
    let shown = run(&["config", "--settings", &settings]);
    shown.succeeds();
    let expected = format!(
        "\n[credential-providers]\nconfig = \"{listing}\" # {drop_in}:1\nbin-dir = \"/opt/bin\" # \
        {drop_in}:2\n# names ecr\n\
         registries = [\"reg.corp\", \"[::1]:5000\"] # {settings}:3\ndeadline-secs = 9 # \
         {settings}:4\nleave-to-agent = true # built in\n"
    );
    shown.prints_last(&expected);
    let report = run(&["config", "--json", "--settings", &settings]).json();
    let providers = &report["credential-providers"];
    assert_eq!(providers["plugins"], json!(["ecr"]));
    assert_eq!(
        providers["registries"],
        json!({"value": ["reg.corp", "[::1]:5000"], "source": {"path": settings, "line": 3}})
    );

    // What the kubelet would refuse is an error, after everything was shown.
    folder.file("providers.yaml", listed.replace("x.corp", "hunter2-password:x"));
    let shown = run(&["config", "--settings", &settings]);
    shown.ends(65);
    shown.prints(&["deadline-secs = 9"]);
    let expected = format!("{listing}: provider \"ecr\": an entry of matchImages");
    shown.says(&[&expected]);
    // Registries without anybody to ask are a mistake.
    folder.file("config.d/50-node.toml", "");
    let shown = run(&["config", "--settings", &settings]);
    shown.ends(65);
    shown.says(&["not found where kubeadm, k3s, RKE2, EKS, GKE and AKS keep it"]);
    // So is half of a place.
    folder.file("config.d/50-node.toml", "credential-providers.bin-dir = \"/opt/bin\"\n");
    let shown = run(&["config", "--settings", &settings]);
    shown.ends(65);
    let expected = format!("{settings}:3: credential-providers.registries: config is missing");
    shown.says(&[&expected]);
    // The kubelet's own registries, so that nobody writes them twice.
    folder.file(
        "config.d/50-node.toml",
        format!(
            "[credential-providers]\nconfig = {listing:?}\nbin-dir = \"/opt/bin\"\nregistries = \
        \"matchImages\"\n"
        ),
    );
    folder.file("providers.yaml", listed);
    let shown = run(&["config", "--settings", &settings]);
    shown.succeeds();
    shown.prints(&["registries = [\"matchImages\"] # "]);
    // A directory: its files in the order of their names, others left alone.
    std::fs::create_dir(folder.path("listing")).unwrap();
    let directory = folder.text("listing");
    folder.file(
        "config.d/50-node.toml",
        format!(
            "credential-providers.config = {directory:?}\ncredential-providers.bin-dir \
        = \"/opt/bin\"\n"
        ),
    );
    assert!(run(&["config", "--settings", &settings]).stderr.contains("no file ends in"));
    for (name, provider) in
        [("b.yml", "second"), ("a.json", "first"), ("c.yaml", "third"), ("d.txt", "none")]
    {
        folder.file(&format!("listing/{name}"), listed.replace("ecr", provider));
    }
    let report = run(&["config", "--json", "--settings", &settings]).json();
    assert_eq!(report["credential-providers"]["plugins"], json!(["first", "second", "third"]));
    // One that names nobody costs itself, as for the kubelet.
    let (head, _) = listed.split_once("providers:").unwrap();
    folder.file("listing/0.yaml", format!("{head}providers: []\n"));
    let report = run(&["config", "--json", "--settings", &settings]).json();
    let plugins = &report["credential-providers"]["plugins"];
    assert_eq!(plugins, &json!(["first", "second", "third"]));
    folder.file("listing/e.yaml", listed.replace("ecr", "first"));
    let shown = run(&["config", "--settings", &settings]);
    shown.says(&["listing/e.yaml: provider 1 has the name of another one"]);
    folder.set_mode("listing/e.yaml", 0o622);
    assert!(run(&["config", "--settings", &settings]).stderr.contains("mode 0622"));
}

#[test]
fn a_pattern_that_does_not_find_its_document_is_told() {
    let folder = node();
    let settings = folder.text("config.toml");
    std::fs::create_dir(folder.path("host/b")).unwrap();
    folder.file("host/b/document.toml", "");
    for rule in ["more than one file matches", "no file matches"] {
        let shown = run(&["config", "--settings", &settings]);
        shown.ends(65);
        shown.prints(&["\n# matches no single file\n"]);
        shown.says(&[rule]);
        let json = run(&["config", "--json", "--settings", &settings]);
        assert_eq!((json.code, &json.json()["document"]["file"]), (65, &json!(null)));
        for name in ["a", "b"] {
            let _ = std::fs::remove_file(folder.path(&format!("host/{name}/document.toml")));
        }
    }
}

/// The output is a settings file, so no name may become a line of it.
#[test]
fn a_line_break_in_a_name_makes_no_line() {
    let folder = Folder::new();
    folder.program("qemu", "755", "#!/bin/sh\n");
    for name in ["a\nx = 1", "a\nx = 1/host", "a\nx = 1/host/b\ny = 2"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    folder.file("a\nx = 1/host/b\ny = 2/document.toml", "");
    let settings = folder.file(
        "a\nx = 1/config.toml",
        format!(
            "document = {:?}\nqemu = {:?}\n",
            folder.path("*/host/*/document.toml"),
            folder.path("qemu")
        ),
    );
    let shown = run(&["config", "--settings", &settings]);
    shown.ends(0);
    shown.prints(&["\n# matches "]);
    assert!(
        shown.stdout.lines().all(|line| !line.starts_with("x = 1") && !line.starts_with("y = 2")),
        "{}",
        shown.stdout
    );
}

#[test]
fn broken_settings_are_told_with_file_and_line() {
    let folder = node();
    let settings = folder.text("config.toml");
    let drop_in = folder.file("config.d/60-bad.toml", "\n[qemu]\nq53 = \"/x\"\n");
    let refused = run(&["config", "--settings", &settings]);
    refused.fails(65, &[&format!("read the settings {drop_in}:3: qemu: \"q53\"")]);
    let absent = run(&["config", "--settings", &folder.text("absent.toml")]);
    absent.ends(65);
}

/// Whoever can write to their directory can replace them.
#[test]
fn settings_in_a_directory_of_everybody_are_refused() {
    let folder = node();
    let settings = folder.text("config.toml");
    let config = || run(&["config", "--settings", &settings]);
    folder.set_mode("", 0o777);
    let refused = config();
    refused.fails(65, &["its mode 0777 lets others than its owner write to it"]);
    refused.says(&["read the settings ", "chmod go-w"]);
    for mode in [0o755, 0o1777] {
        folder.set_mode("", mode);
        config().ends(0);
    }
}

/// The command said what the wrapper would do, and ended with 0 where that was to refuse every
/// sandbox.
#[test]
fn what_the_wrapper_would_refuse_is_an_error() {
    let wrapper = env!("CARGO_BIN_EXE_kata-configdev-qemu");
    let cases = [
        ("qemu = \"/nowhere/qemu\"", 69, "execute /nowhere/qemu: No such file"),
        ("qemu = \"/etc\"", 69, "execute /etc: Permission denied"),
        ("qemu.pc = \"/etc/passwd\"", 69, "execute /etc/passwd: Permission denied"),
        (&format!("qemu = {wrapper:?}"), 65, "is this wrapper itself"),
        ("transport = \"loop\"", 65, "the wrapper cannot use the transport \"loop\""),
        ("transport = \"vhost-user\"", 65, "cannot use the transport"),
        ("document = \"/nowhere/d.toml\"", 65, "read the node's document /nowhere/d.toml: No such"),
        ("document = \"BROKEN\"", 65, "accept the document "),
        ("annotation-allow = [\"/nowhere\"]", 65, "open the allowed directory /nowhere: No such"),
        ("disks.timesync = {source = \"/nowhere/d\"}", 65, "/nowhere/d"),
    ];
    for (line, code, said) in cases {
        let folder = node();
        let settings = folder.text("config.toml");
        run(&["config", "--settings", &settings]).succeeds();
        let broken = folder.file("broken.toml", "[registries.\"a.corp\"]\npasword = \"x\"\n");
        let line = line.replace("BROKEN", &broken);
        folder.file("config.d/60-broken.toml", format!("{line}\n"));
        let shown = run(&["config", "--settings", &settings]);
        shown.ends(code);
        shown.says(&[said]);
        shown.prints(&["deadline-secs = 5"]);
        let json = run(&["config", "--json", "--settings", &settings]);
        json.ends(code);
        let obstacles = json.json()["obstacles"].to_string();
        assert!(obstacles.contains("failed to "), "{obstacles}");
        // Turned off, only QEMU counts.
        folder.file("config.d/70-off.toml", "enabled = false\n");
        let shown = run(&["config", "--settings", &settings]);
        shown.ends(if line.starts_with("qemu") { code } else { 0 });
    }
}
