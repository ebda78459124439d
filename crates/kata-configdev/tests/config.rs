//! `kata-configdev config`: the settings that hold, and where they came from.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod command;

use command::{Folder, run};
use serde_json::json;

/// A folder with the settings `config.toml`, the drop-in `config.d/50-node.toml` and one document.
fn node() -> Folder {
    let folder = Folder::new();
    for name in ["config.d", "host", "host/a"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    folder.file(
        "config.toml",
        format!(
            "qemu = \"/opt/qemu\"\ndocument = {:?}\ntransport = \"file\"\n",
            folder.path("host/*/document.toml")
        ),
    );
    let drop_in = "qemu.microvm = \"/opt/small\"\nguest-pull = true\n";
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
    assert_eq!(
        shown.stdout,
        format!(
            "# {settings}\n# {drop_in}\n\
             document = \"{pattern}\" # {settings}:2\n# matches {document}\n\
             annotation-allow = [] # built in\n\
             without-spec = \"node\" # built in\n\
             transport = \"file\" # {settings}:3\n\
             # capacity: what the transport has by itself\n\
             run-root = \"/run\" # built in\n\
             refuse = \"auto\" # built in\n\
             guest-pull = true # {drop_in}:2\n\n\
             [qemu]\n\
             default = \"/opt/qemu\" # {settings}:1\n\
             microvm = \"/opt/small\" # {drop_in}:1\n\n\
             [scratch]\n\
             # size: none\n# max-total: none\n\
             directory = \"/var/lib/kata-configdev/scratch\" # built in\n\n\
             [credential-providers]\n\
             # config: none\n# bin-dir: none\n\
             registries = [] # built in\n\
             deadline-secs = 5 # built in\n"
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
    let allow = folder.file("config.d/55-allow.toml", "annotation-allow = [\"/a\"]\n");
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

    let report = run(&["config", "--json", "--settings", &settings]).json();
    assert_eq!(report["files"], json!([settings, drop_in]));
    assert_eq!(
        report["document"],
        json!({"value": pattern, "source": {"path": settings, "line": 2}, "file": document})
    );
    assert_eq!(
        report["annotation-allow"],
        json!({"value": [], "source": null})
    );
    assert_eq!(
        report["qemu"]["microvm"],
        json!({"value": "/opt/small", "source": {"path": drop_in, "line": 1}})
    );
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
        "[credential-providers]\nregistries = [\"Reg.corp\", \"[::1]:5000\"]\ndeadline-secs = 9\n",
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
         registries = [\"reg.corp\", \"[::1]:5000\"] # {settings}:2\ndeadline-secs = 9 # \
         {settings}:3\n"
    );
    shown.prints_last(&expected);
    let report = run(&["config", "--json", "--settings", &settings]).json();
    let providers = &report["credential-providers"];
    assert_eq!(providers["plugins"], json!(["ecr"]));
    assert_eq!(
        providers["registries"],
        json!({"value": ["reg.corp", "[::1]:5000"], "source": {"path": settings, "line": 2}})
    );

    // What the kubelet would refuse is an error, after everything was shown.
    folder.file(
        "providers.yaml",
        listed.replace("x.corp", "hunter2-password:x"),
    );
    let shown = run(&["config", "--settings", &settings]);
    shown.ends(65);
    shown.prints(&["deadline-secs = 9"]);
    let expected = format!("{listing}: provider \"ecr\": an entry of matchImages");
    shown.says(&[&expected]);
    // Registries without anybody to ask are a mistake.
    folder.file("config.d/50-node.toml", "");
    let shown = run(&["config", "--settings", &settings]);
    shown.ends(65);
    let expected = format!("{settings}:2: credential-providers.registries: config is missing");
    shown.says(&[&expected]);
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
    assert!(
        run(&["config", "--settings", &settings])
            .stderr
            .contains("no file ends in")
    );
    for (name, provider) in [
        ("b.yml", "second"),
        ("a.json", "first"),
        ("c.yaml", "third"),
        ("d.txt", "none"),
    ] {
        folder.file(&format!("listing/{name}"), listed.replace("ecr", provider));
    }
    let report = run(&["config", "--json", "--settings", &settings]).json();
    assert_eq!(
        report["credential-providers"]["plugins"],
        json!(["first", "second", "third"])
    );
    folder.file("listing/e.yaml", listed.replace("ecr", "first"));
    let shown = run(&["config", "--settings", &settings]);
    shown.says(&["listing/e.yaml: provider 1 has the name of another one"]);
    folder.set_mode("listing/e.yaml", 0o622);
    assert!(
        run(&["config", "--settings", &settings])
            .stderr
            .contains("mode 0622")
    );
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
        assert_eq!(
            (json.code, &json.json()["document"]["file"]),
            (65, &json!(null))
        );
        for name in ["a", "b"] {
            let _ = std::fs::remove_file(folder.path(&format!("host/{name}/document.toml")));
        }
    }
}

/// The output is a settings file, so no name may become a line of it.
#[test]
fn a_line_break_in_a_name_makes_no_line() {
    let folder = Folder::new();
    for name in ["a\nx = 1", "a\nx = 1/host", "a\nx = 1/host/b\ny = 2"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    folder.file("a\nx = 1/host/b\ny = 2/document.toml", "");
    let settings = folder.file(
        "a\nx = 1/config.toml",
        format!("document = {:?}\n", folder.path("*/host/*/document.toml")),
    );
    let shown = run(&["config", "--settings", &settings]);
    shown.ends(0);
    shown.prints(&["\n# matches "]);
    assert!(
        shown
            .stdout
            .lines()
            .all(|line| !line.starts_with("x = 1") && !line.starts_with("y = 2")),
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
    refused.fails(
        65,
        &[&format!("read the settings {drop_in}:3: qemu: \"q53\"")],
    );
    let absent = run(&["config", "--settings", &folder.text("absent.toml")]);
    absent.ends(65);
}
