//! The ways in which a node is broken, by the id of what doctor says of it.

use std::fs;
use std::os::unix::fs::{chown, symlink};

use crate::doctor::node::{
    ALLOWED, CONTAINERD, DOCUMENT, DROP_IN, HANDLER, MAIN, Node, QEMU, SETTINGS, WRAPPER,
};

#[path = "breaks/kubelet.rs"]
mod kubelet;

type Break = fn(&Node);

/// All of them.
pub fn all() -> impl Iterator<Item = &'static (&'static str, Break)> {
    BREAKS.iter().chain(kubelet::BREAKS)
}

const TENANTS: &str = "etc/kata-configdev/tenants";

/// Turns the node into one with a document for each of these namespaces.
fn by_namespace(node: &Node, engine: &str, namespaces: &[&str]) {
    let text = format!(
        "qemu = \"/opt/kata/bin/qemu-system-x86_64\"\n\
         document = \"/{TENANTS}/{{namespace}}.toml\"\nengine = {engine:?}\nguest-pull = true\n"
    );
    node.put(SETTINGS, &text);
    fs::create_dir(node.path(TENANTS)).unwrap();
    for namespace in namespaces {
        let document = format!("{TENANTS}/{namespace}.toml");
        node.put(&document, "[registries.\"a.corp\"]\n");
        node.set_mode(&document, 0o600);
    }
}

const BREAKS: &[(&str, Break)] = &[
    ("settings-missing", |node| node.remove(SETTINGS)),
    ("settings-invalid", |node| {
        node.append(SETTINGS, "documnet = \"/x\"\n");
    }),
    ("settings-access", |node| node.set_mode(SETTINGS, 0o664)),
    ("settings-access", |node| {
        node.set_mode("etc/kata-configdev", 0o777);
    }),
    ("settings-not-read", |node| {
        node.put("etc/kata-configdev/config.d/10-own.toml~", "");
    }),
    ("set-off", |node| {
        node.put("etc/kata-configdev/config.d/99-off.toml", "enabled = false\n");
    }),
    ("set-unused", |node| node.remove(DROP_IN)),
    ("transport-refused", |node| {
        node.append(SETTINGS, "transport = \"vhost-user\"\n");
    }),
    ("annotation-directory", |node| {
        fs::remove_dir(node.path(ALLOWED)).unwrap();
    }),
    ("annotation-document", |node| {
        let document = format!("{ALLOWED}/team-a.toml");
        node.put(&document, "[registries.\"a.corp\"]\npasword = \"hunter2-token\"\n");
        node.set_mode(&document, 0o600);
    }),
    ("annotation-document", |node| {
        let document = format!("{ALLOWED}/team-b.toml");
        node.put(&document, "[registries.\"a.corp\"]\n");
        node.set_mode(&document, 0o666);
    }),
    ("namespaces-directory", |node| {
        by_namespace(node, "containerd", &["team-a"]);
        node.set_mode(TENANTS, 0o720);
    }),
    ("namespaces-none", |node| by_namespace(node, "containerd", &[])),
    ("namespace-document", |node| {
        by_namespace(node, "containerd", &["team-a"]);
        symlink("team-a.toml", node.path(&format!("{TENANTS}/team-b.toml"))).unwrap();
    }),
    ("engine-differs", |node| by_namespace(node, "cri-o", &["team-a"])),
    ("document-missing", |node| node.remove(DOCUMENT)),
    ("document-pattern", |node| {
        node.edit(SETTINGS, "imagepuller.toml", "no*.toml");
    }),
    ("document-access", |node| {
        chown(node.path(DOCUMENT), Some(1000), None).unwrap();
    }),
    ("document-invalid", |node| {
        node.append(DOCUMENT, "pasword = \"hunter2-token\"\n");
    }),
    ("document-warning", |node| node.set_mode(DOCUMENT, 0o644)),
    ("document-node-error", |node| {
        node.put(DOCUMENT, "node-error = \"the secret is late\"\n");
    }),
    ("document-none", |node| {
        node.put(SETTINGS, "qemu = \"/opt/kata/bin/qemu-system-x86_64\"\n");
    }),
    ("qemu-missing", |node| node.remove(QEMU)),
    ("qemu-differs", |node| {
        let snp = "/opt/kata/bin/qemu-system-x86_64-snp-experimental";
        node.edit(MAIN, "/opt/kata/bin/qemu-system-x86_64", snp);
    }),
    ("qemu-not-executable", |node| node.set_mode(QEMU, 0o644)),
    ("qemu-is-wrapper", |node| {
        let wrapper = "/usr/local/bin/kata-configdev-qemu";
        node.edit(SETTINGS, "/opt/kata/bin/qemu-system-x86_64", wrapper);
    }),
    ("wrapper-missing", |node| node.remove(WRAPPER)),
    ("wrapper-not-executable", |node| node.set_mode(WRAPPER, 0o644)),
    ("wrapper-version", |_| {}),
    ("wrapper-version", |node| {
        node.put(WRAPPER, "\u{1}program-version=0.0.9 (commit unknown)\u{1}");
        node.set_mode(WRAPPER, 0o755);
    }),
    ("handler-none", |node| node.remove(MAIN)),
    ("handler-unread", |node| {
        let drop_ins = node.path(HANDLER).join("config.d");
        fs::rename(&drop_ins, node.path("etc/config.d")).unwrap();
        symlink("/etc/config.d", drop_ins).unwrap();
    }),
    ("handler-without-wrapper", |node| node.remove(DROP_IN)),
    ("drop-in-overrides", |node| {
        let text = "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n";
        node.drop_in("zz-own.toml", text);
    }),
    ("drop-in-wrapper-setting", |node| {
        node.append(DROP_IN, "document = \"/etc/x.toml\"\n");
    }),
    ("drop-in-unknown-key", |node| {
        node.drop_in("60-own.toml", "[hypervisor.qemu]\ndefault_memroy = 4096\n");
    }),
    ("drop-in-no-file", |node| {
        fs::create_dir(node.path(HANDLER).join("config.d/old")).unwrap();
    }),
    ("drop-in-link", |node| {
        symlink("/etc/own.toml", node.path(HANDLER).join("config.d/60-own.toml")).unwrap();
    }),
    ("drop-in-name", |node| node.drop_in("60-own.toml~", "")),
    ("kata-file-no-toml", |node| node.drop_in("60-own.toml", "path = \n")),
    ("kata-file-unread", |node| {
        node.drop_in("60-own.toml", &"#".repeat(300_000));
    }),
    ("hypervisor-second", |node| {
        node.append(MAIN, "[hypervisor.clh]\npath = \"/opt/kata/bin/clh\"\n");
    }),
    ("hypervisor-other", |node| {
        node.append(MAIN, "hypervisor_name = \"cloud-hypervisor\"\n");
    }),
    ("hypervisor-none", |node| {
        node.edit(MAIN, "[hypervisor.qemu]", "[hypervisor.clh]");
    }),
    ("vm-factory", |node| {
        node.append(MAIN, "[factory]\nenable_template = true\n");
    }),
    ("annotations-not-passed", |node| {
        node.edit(CONTAINERD, "io.katacontainers.*", "io.kata-other.*");
    }),
    ("handler-unused", |node| {
        fs::create_dir(node.path(HANDLER).join("other")).unwrap();
        node.put(&format!("{HANDLER}/other/configuration-other.toml"), "");
        node.edit(
            CONTAINERD,
            "qemu-snp/configuration-qemu-snp",
            "qemu-snp/other/configuration-other",
        );
    }),
    ("engine-unread", |node| node.append(CONTAINERD, "[plugins\n")),
    ("guest-pull-nowhere", |node| {
        node.edit(MAIN, "experimental_force_guest_pull = true\n", "");
        node.edit(SETTINGS, "guest-pull = true\n", "");
    }),
    ("guest-pull-differs", |node| {
        node.edit(MAIN, "experimental_force_guest_pull = true\n", "");
    }),
    ("guest-pull-unset", |node| {
        let rust = "hypervisor_name = \"qemu\"\nexperimental = [\"force_guest_pull\"]\n";
        node.edit(MAIN, "experimental_force_guest_pull = true\n", rust);
        node.edit(MAIN, "[runtime]\ncreate", "create");
        node.edit(MAIN, "hypervisor_name", "[runtime]\nhypervisor_name");
        node.edit(MAIN, "dial_timeout = 90", "reconnect_timeout_ms = 45000");
        node.edit(SETTINGS, "guest-pull = true\n", "");
    }),
    ("guest-pull-encrypted", |node| {
        let keys = "[decryption-keys]\nkeys = [\"kbs:///default/image-key/1\"]\n";
        node.append(DOCUMENT, keys);
    }),
    ("guest-pull-encrypted", |node| {
        by_namespace(node, "containerd", &["team-a", "team-b"]);
        let keys = "[decryption-keys]\nkeys = [\"kbs:///default/image-key/1\"]\n";
        node.put(&format!("{TENANTS}/team-b.toml"), keys);
        node.set_mode(&format!("{TENANTS}/team-b.toml"), 0o600);
    }),
    ("guest-pull-encrypted", |node| {
        let keys = "[decryption-keys]\nkeys = [\"kbs:///default/image-key/1\"]\n";
        node.put(&format!("{ALLOWED}/keys.toml"), keys);
        node.set_mode(&format!("{ALLOWED}/keys.toml"), 0o600);
    }),
    ("guest-components", |node| {
        node.edit(MAIN, "agent.guest_components_procs=none", "quiet");
    }),
    ("timeout-create-short", |node| {
        node.edit(MAIN, "create_container_timeout = 600\n", "");
    }),
    ("document-unread", |node| {
        node.remove(DOCUMENT);
        fs::create_dir(node.path(DOCUMENT)).unwrap();
    }),
    ("settings-unread", |node| node.append(SETTINGS, &"#".repeat(70_000))),
    ("settings-unread", |node| {
        node.put("etc/kata-configdev/own.toml", "refuse = \"disk\"\n");
        fs::create_dir(node.path("etc/kata-configdev/config.d")).unwrap();
        let link = node.path("etc/kata-configdev/config.d/10-own.toml");
        symlink("../own.toml", link).unwrap();
    }),
    ("settings-unread", |node| {
        for number in 0..=1024 {
            node.put(&format!("etc/kata-configdev/config.d/{number}.toml"), "");
        }
    }),
    ("annotation-overlap", |node| {
        by_namespace(node, "containerd", &["team-a"]);
        fs::remove_dir(node.path(ALLOWED)).unwrap();
        symlink("tenants", node.path(ALLOWED)).unwrap();
        let allowed = format!("annotation-allow = [\"/{ALLOWED}\"]\n");
        node.append(SETTINGS, &allowed);
    }),
    ("leftover-image", |node| {
        let record = r#"{"document":null,"providers":false,"held":true}"#;
        let sandbox = "run/kata-containers/shared/initdata/3f1c0d9a5b7e";
        node.put(&format!("{sandbox}/imagepuller.json"), record);
        node.put(&format!("{sandbox}/imagepuller.img"), "");
    }),
    ("leftover-image", |node| {
        node.remove(DROP_IN);
        node.remove(SETTINGS);
        let record = r#"{"document":null,"providers":false,"held":true}"#;
        let sandbox = "run/kata-containers/shared/initdata/3f1c0d9a5b7e";
        node.put(&format!("{sandbox}/imagepuller.json"), record);
        node.put(&format!("{sandbox}/imagepuller.img"), "");
    }),
    ("leftover-state", |node| {
        node.remove(DROP_IN);
        node.remove(SETTINGS);
        node.put("run/kata-configdev/credential-providers/x", "");
    }),
    ("leftovers-unread", |node| {
        node.put("run/kata-containers/shared/initdata", "");
    }),
    ("installation", |node| installed(node, &[])),
    ("installation-missing", |node| installed(node, &["kata-configdev-qemu"])),
    ("installation-unfinished", |node| {
        installed(node, &[]);
        node.put(&format!("{INSTALLED}/.kata-configdev-qemu.unfinished"), "");
    }),
    ("installation-staying", |node| {
        installed(node, &[]);
        node.put(&format!("{INSTALLED}/kata-configdev-qemu"), "changed");
    }),
    ("installation-staying", |node| {
        installed(node, &[]);
        let entry = r#"{"path":"/etc/shadow","sha256":[],"kind":"document"},"#;
        let files = "\"files\":[";
        node.edit("opt/kata-configdev/installed.json", files, &format!("{files}{entry}"));
        node.put("etc/shadow", "");
    }),
    ("installation-untrusted", |node| {
        installed(node, &[]);
        node.set_mode("opt/kata-configdev", 0o775);
    }),
    ("installation-unread", |node| {
        node.put("opt/kata-configdev/installed.json", "[]");
    }),
];

/// The SHA-256 of nothing.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

const INSTALLED: &str = "opt/kata-configdev/default/bin";

/// What an installer left, but for the files `missing`.
fn installed(node: &Node, missing: &[&str]) {
    let wrapper = format!("/{INSTALLED}/kata-configdev-qemu");
    let list = format!(
        r#"{{"format":2,"owner":"team/agent","directories":[],
        "files":[{{"path":"{wrapper}","sha256":["{EMPTY}"],"kind":"wrapper","set":"default"}}]}}"#
    );
    node.put("opt/kata-configdev/installed.json", &list);
    node.put(&format!("{INSTALLED}/kata-configdev-qemu"), "");
    for name in missing {
        node.remove(&format!("{INSTALLED}/{name}"));
    }
}
