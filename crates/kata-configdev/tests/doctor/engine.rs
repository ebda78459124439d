//! What the container engine tells Kata's handlers, and what their own files say.

use std::fs;
use std::os::unix::fs::symlink;

use kata_configdev::settings::RULES;
use test_command::Folder;

use crate::command::run;
use crate::doctor::breaks;
use crate::doctor::doctor;
use crate::doctor::node::{CONTAINERD, DROP_IN, HANDLER, MAIN, Node, SETTINGS};

/// A handler as Kata's packages have it: all main files in one directory, and no ConfigPath, which
/// made every check of the container engine fall silent.
#[test]
fn a_runtime_of_kata_without_a_path_has_katas_own() {
    let node = Node::new();
    let flat = "usr/share/defaults/kata-containers";
    let main = fs::read_to_string(node.path(MAIN)).unwrap();
    let drop_in = fs::read_to_string(node.path(DROP_IN)).unwrap();
    fs::remove_dir_all(node.path(HANDLER)).unwrap();
    node.put(&format!("{flat}/configuration-qemu.toml"), &main);
    node.put(&format!("{flat}/config.d/zz-kata-configdev.toml"), &drop_in);
    let other = "[hypervisor.clh]\npath = \"/opt/kata/bin/cloud-hypervisor\"\n\
        [runtime]\ncreate_container_timeout = 5\n";
    node.put(&format!("{flat}/configuration-clh.toml"), other);
    let link = node.path(&format!("{flat}/configuration.toml"));
    symlink("configuration-qemu.toml", link).unwrap();
    let containerd = "version = 2\n\
        [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\n\
        runtime_type = \"io.containerd.kata.v2\"\n\
        [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n\
        runtime_type = \"io.containerd.runc.v2\"\n";
    node.put(CONTAINERD, containerd);
    let run = doctor(&node, &[]);
    run.ends(0).prints(&["warning annotations-not-passed: the runtime kata has no "]);
    assert!(!run.stdout.contains("handler-unused"), "{}", run.stdout);
    // The main file that nobody uses.
    assert!(!run.stdout.contains("hypervisor-none"), "{}", run.stdout);
    assert!(!run.stdout.contains("   5 s"), "{}", run.stdout);

    node.edit(
        CONTAINERD,
        "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\n",
        "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"nydus\"\n\
         [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\n\
         pod_annotations = [\"io.katacontainers.config.runtime.imagepuller_config\"]\n",
    );
    node.edit(
        &format!("{flat}/configuration-qemu.toml"),
        "experimental_force_guest_pull = true\n",
        "",
    );
    let run = doctor(&node, &[]);
    run.ends(0).prints(&[
        "has no pod_annotations for io.katacontainers.config.runtime.imagepuller_registries, ",
    ]);
    assert!(!run.stdout.contains("guest-pull-"), "{}", run.stdout);

    // Where the engine does not say which one is used, the other need not be.
    node.remove(CONTAINERD);
    let run = doctor(&node, &[]);
    run.ends(0).prints(&["configuration-clh.toml: warning hypervisor-none: "]);
}

/// CRI-O ends every creation after four minutes, and nobody said so.
#[test]
fn what_cri_o_has_by_itself_is_told_and_each_key_by_its_file() {
    let node = Node::new();
    node.remove(CONTAINERD);
    let kata = "[crio.runtime.runtimes.kata]\n";
    let path = "/opt/kata/share/defaults/kata-containers/runtimes/qemu-snp/\
        configuration-qemu-snp.toml";
    let first = format!("{kata}runtime_type = \"vm\"\nruntime_config_path = {path:?}\n");
    node.put("etc/crio/crio.conf.d/10-kata.conf", &first);
    doctor(&node, &[]).ends(0).prints(&[
        " 240 s  CRI-O        container_create_timeout   built in: ",
        "qemu-snp: warning timeout-pull-first: container_create_timeout of CRI-O is 240 s ",
    ]);
    let second = format!("\n{kata}container_create_timeout = 12\n");
    node.put("etc/crio/crio.conf.d/20-own.conf", &second);
    by_engine(&node, "containerd");
    doctor(&node, &[]).prints(&[
        "  30 s  CRI-O        container_create_timeout   /etc/crio/crio.conf.d/20-own.conf:3: ",
        "fault engine-differs: engine is containerd, but CRI-O starts the handlers of this set \
         (/etc/crio/crio.conf.d/10-kata.conf:3), ",
    ]);
}

/// On k3s the file of containerd is written anew at each start.
#[test]
fn on_k3s_the_template_is_named() {
    let node = Node::new();
    node.edit(CONTAINERD, "io.katacontainers.*", "io.kata-other.*");
    let text = fs::read_to_string(node.path(CONTAINERD)).unwrap();
    node.remove(CONTAINERD);
    node.put("var/lib/rancher/k3s/agent/etc/containerd/config.toml", &text);
    doctor(&node, &[]).prints(&["into its table in config-v3.toml.tmpl beside this file "]);
}

fn by_engine(node: &Node, engine: &str) {
    node.append(SETTINGS, &format!("engine = {engine:?}\n"));
}

/// Whether the installer is ready, and what doctor says, is one thing.
#[test]
fn doctor_says_of_katas_files_what_the_installer_says() {
    let wrapper = "/opt/kata-configdev/default/bin/kata-configdev-qemu";
    let mut told = 0;
    for (id, break_it) in breaks::all() {
        if !["drop-in", "hypervisor", "kata-file", "vm-"].iter().any(|kind| id.starts_with(kind)) {
            continue;
        }
        let node = Node::new();
        node.edit(DROP_IN, "/usr/local/bin/kata-configdev-qemu", wrapper);
        break_it(&node);
        if *id == "hypervisor-none" {
            // Which of two main files is used, the installer does not know.
            node.remove(CONTAINERD);
            node.put(
                &format!("{}/configuration-other.toml", HANDLER),
                "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n",
            );
        }
        let text = format!(
            "host = {:?}\nprefix = \"/opt/kata-configdev\"\nwrapper = \"/wrapper\"\n\
             [sets.default]\nsecret = \"/secret\"\nhandlers = [\"/{}\"]\n",
            node.root(),
            HANDLER
        );
        let options = node_installer::Options::parse(text.as_bytes(), RULES).unwrap();
        let seen = node_installer::kata::look(&options).unwrap();
        let printed = doctor(&node, &[]).stdout;
        for finding in seen.findings {
            let place = format!("{}:{}", finding.path, finding.line);
            let place = place.trim_end_matches(":0");
            let line = printed.lines().find(|line| {
                line.starts_with(place)
                    && line.contains(&format!(" {}: {}", finding.id, finding.message))
                    && line.contains(": fault ") == finding.is_fault
            });
            assert!(line.is_some(), "{finding}:\n{printed}");
            told += 1;
        }
    }
    assert!(told >= 11, "only {told}");
}

/// Whether QEMU can be started is looked at by both, too: here by a whole installation.
#[test]
fn doctor_says_of_qemu_what_the_installer_says() {
    let container = Folder::with(&["secret"]);
    container.file("wrapper", "the wrapper");
    container.file("secret/imagepuller.toml", "");
    let mut told = 0;
    for (id, break_it) in breaks::all() {
        let rule = match *id {
            "qemu-missing" => "it is not there",
            "qemu-not-executable" => "it is no program",
            _ => continue,
        };
        let node = Node::new();
        node.remove(DROP_IN);
        node.remove(SETTINGS);
        let text = format!(
            "host = {:?}\nprefix = \"/opt/kata-configdev\"\nwrapper = {:?}\n\
             binaries = [\"/opt/kata/bin\"]\n\
             [sets.default]\nsecret = {:?}\nhandlers = [\"/{HANDLER}\"]\n",
            node.root(),
            container.path("wrapper"),
            container.path("secret")
        );
        container.file("installer.toml", &text);
        let install = || run(&["install", "--config", &container.text("installer.toml")]);
        install().ends(0);
        let run = doctor(&node, &[]);
        assert!(!run.stdout.contains(&format!(" {id}: ")), "{run:?}");
        break_it(&node);
        let refused = install();
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.stderr.contains(rule), "{refused:?}");
        let run = doctor(&node, &[]);
        run.ends(65).prints(&[&format!(": fault {id}: ")]);
        told += 1;
    }
    assert_eq!(told, 2);
}
