//! `kata-configdev doctor` says of a broken node what docs/operations.md says that it says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code: a failed step should stop the test where it is"
)]

#[path = "doctor/breaks.rs"]
mod breaks;
mod command;
#[path = "doctor/journal.rs"]
mod journal;
#[path = "doctor/node.rs"]
mod node;

use std::collections::BTreeMap;
use std::path::Path;

use breaks::BREAKS;
use command::run;
use kata_configdev::settings::RULES;
use node::Node;
use test_command::{Run, skipped_without_root};

fn doctor(node: &Node, more: &[&str]) -> Run {
    let root = node.root();
    let mut arguments = vec!["doctor", "--host-root", &root];
    arguments.extend(more);
    run(&arguments)
}

/// What doctor prints by the table of the page: the last cell of each of its rows, by the id in it.
fn table() -> BTreeMap<String, Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let head = "| What you see | What `doctor` prints |\n|---|---|\n";
    let (_, rows) = page.split_once(head).expect("the table");
    let mut table: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [_, line] = cells[..] else {
            panic!("not two cells: {row}");
        };
        let line = line.trim().trim_matches('`');
        let after = ["fault ", "warning ", "note "]
            .iter()
            .find_map(|severity| line.split_once(severity));
        let (_, after) = after.expect(row);
        let (id, _) = after.split_once(':').expect(row);
        table.entry(id.into()).or_default().push(line.into());
    }
    table
}

/// Whether `line` is what the page says, where `...` stands for anything.
fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    for (index, part) in parts.iter().enumerate() {
        if index + 1 == parts.len() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.is_empty()
}

#[test]
fn a_node_on_which_all_is_well_has_no_fault() {
    let node = Node::new();
    let run = doctor(&node, &[]);
    run.succeeds();
    run.prints(&["0 faults, 0 warnings, "]);
    let json: serde_json::Value = doctor(&node, &["--json"]).json();
    let severities = json["findings"].as_array().unwrap().iter();
    assert!(
        severities
            .map(|one| &one["severity"])
            .all(|one| one == "note")
    );
}

#[test]
fn privileged_the_page_says_what_doctor_prints() {
    if skipped_without_root("giving a file away") {
        return;
    }
    let mut table = table();
    let mut differences = Vec::new();
    for (id, break_it) in BREAKS {
        let node = Node::new();
        break_it(&node);
        let run = doctor(&node, &[]);
        let has_fault = run.stdout.contains(": fault ");
        assert_eq!(run.code, if has_fault { 65 } else { 0 }, "{id}: {run:?}");
        let patterns = table.remove(*id).unwrap_or_default();
        if patterns.is_empty() {
            differences.push(format!("{id} is not in the table:\n{}", run.stdout));
        }
        for pattern in patterns {
            if !run.stdout.lines().any(|line| matches(&pattern, line)) {
                differences.push(format!("no line is {pattern:?}:\n{}", run.stdout));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(table.is_empty(), "nothing is broken that way: {table:?}");
}

/// What stands on a node is somebody else's: it may lead out of it, and never end.
#[test]
fn no_link_leads_out_and_no_fifo_hangs() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    let node = Node::new();
    let fifo = |name: &str| {
        let path = node.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    };
    let foreign = [
        node::CONTAINERD,
        node::KUBELET,
        "etc/crio/crio.conf",
        "etc/default/kubelet",
        "opt/kata-configdev/installed.json",
        "etc/kata-containers/configuration.toml",
    ];
    foreign.into_iter().for_each(fifo);
    symlink("..", node.path("etc/kata-containers/loop")).unwrap();
    symlink("/", node.path("etc/kata-containers/root")).unwrap();
    doctor(&node, &[]).ends(0).prints(&[
        "/etc/containerd/config.toml: warning engine-unread: ",
        "/etc/crio/crio.conf: warning engine-unread: ",
        "/var/lib/kubelet/config.yaml: warning kubelet-unread: it is not a regular file, ",
        "/opt/kata-configdev: warning installation-unread: ",
    ]);
    fifo(node::DOCUMENT);
    node.remove(node::SETTINGS);
    symlink("/etc/passwd", node.path(node::SETTINGS)).unwrap();
    let run = doctor(&node, &[]);
    run.ends(65).prints(&["fault settings-missing: "]);
    node.remove(node::SETTINGS);
    node.put(
        node::SETTINGS,
        "document = \"/etc/kata-configdev/imagepuller.toml\"\n",
    );
    let run = doctor(&node, &[]);
    run.ends(65)
        .prints(&["fault document-unread: ", "it is not a regular file"]);
}

/// The time-outs stand in five files and have defaults in five programs.
#[test]
fn all_time_outs_are_in_one_table() {
    let node = Node::new();
    node.edit(
        node::MAIN,
        "procs=none",
        "procs=none agent.image_pull_timeout=900",
    );
    node.put(
        "etc/default/kubelet",
        "KUBELET_EXTRA_ARGS=--runtime-request-timeout=30m\n",
    );
    let json = doctor(&node, &["--json"]).succeeds().json();
    let rows = json["timeouts"].as_array().unwrap().iter();
    let rows: Vec<_> = rows
        .map(|row| {
            let path = row["path"].as_str().unwrap_or("built in");
            let file = path.rsplit('/').next().unwrap();
            let key = row["key"].as_str().unwrap();
            format!("{key} {} {file}:{}", row["seconds"], row["line"])
        })
        .collect();
    assert_eq!(
        rows,
        [
            "runtimeRequestTimeout 1800.0 kubelet:0",
            "--stall-timeout 30.0 built in:0",
            "--linger 300.0 built in:0",
            "create_container_timeout 600.0 configuration-qemu-snp.toml:7",
            "dial_timeout 90.0 configuration-qemu-snp.toml:5",
            "agent.image_pull_timeout 900.0 configuration-qemu-snp.toml:3",
        ]
    );
    let rust = "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n\
        [agent.kata]\ncreate_container_timeout = 120\n\
        [runtime]\nhypervisor_name = \"qemu\"\n";
    node.put(node::MAIN, rust);
    let crio = "[crio.runtime.runtimes.kata]\nruntime_pull_image = true\n\
        container_create_timeout = 100\nruntime_config_path = \"/opt/kata/share/defaults/\
        kata-containers/runtimes/qemu-snp/configuration-qemu-snp.toml\"\n";
    node.put("etc/crio/crio.conf.d/99-kata.conf", crio);
    let run = doctor(&node, &[]);
    run.ends(0).prints(&[
        " 120 s  runtime-rs   create_container_timeout ",
        "   3 s  runtime-rs   reconnect_timeout_ms       built in: ",
        "  30 s  runtime-rs   request_timeout_ms ",
        "0.01 s  runtime-rs   dial_timeout_ms ",
        "warning timeout-pull-first: container_create_timeout of CRI-O is 100 s ",
    ]);
}

/// The kubelet's time-out stands where the node's installer put it.
#[test]
fn the_kubelets_time_out_is_found_by_every_way_in() {
    let flag = "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/own.yaml \\\n";
    for (files, secs) in [
        (&[][..], 120.0),
        (
            &[("var/lib/kubelet/config.yaml", "runtimeRequestTimeout: 3m\n")],
            180.0,
        ),
        (
            &[
                ("var/lib/kubelet/config.yaml", "runtimeRequestTimeout: 3m\n"),
                ("usr/lib/systemd/system/kubelet.service", flag),
                ("etc/own.yaml", "runtimeRequestTimeout: 4m\n"),
            ],
            240.0,
        ),
        (
            &[
                ("var/lib/kubelet/config.yaml", "runtimeRequestTimeout: 3m\n"),
                (
                    "etc/systemd/system/kubelet.service.d/20-own.conf",
                    "[Service]\nEnvironment=\"X=--runtime-request-timeout=5m\"\n",
                ),
            ],
            300.0,
        ),
        (
            &[(
                "etc/rancher/k3s/config.yaml",
                "kubelet-arg:\n- \"runtime-request-timeout=6m\"\n",
            )],
            360.0,
        ),
    ] {
        let node = Node::new();
        node.remove(node::KUBELET);
        for (name, text) in files {
            node.put(name, text);
        }
        let json = doctor(&node, &["--json"]).json();
        assert_eq!(json["timeouts"][0]["seconds"], secs, "{files:?}");
    }
}

/// Whether the installer is ready, and what doctor says, is one thing.
#[test]
fn doctor_says_of_katas_files_what_the_installer_says() {
    let wrapper = "/opt/kata-configdev/default/bin/kata-configdev-qemu";
    let mut told = 0;
    for (id, break_it) in BREAKS {
        if !["drop-in", "hypervisor", "kata-file", "vm-"]
            .iter()
            .any(|kind| id.starts_with(kind))
        {
            continue;
        }
        let node = Node::new();
        node.edit(node::DROP_IN, "/usr/local/bin/kata-configdev-qemu", wrapper);
        break_it(&node);
        let text = format!(
            "host = {:?}\nprefix = \"/opt/kata-configdev\"\nwrapper = \"/wrapper\"\n\
             [sets.default]\nsecret = \"/secret\"\nhandlers = [\"/{}\"]\n",
            node.root(),
            node::HANDLER
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
            });
            assert!(line.is_some(), "{finding}:\n{printed}");
            told += 1;
        }
    }
    assert!(told >= 11, "only {told}");
}
