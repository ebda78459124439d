//! `kata-configdev doctor` says of a broken node what docs/doctor.md says that it says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code: a failed step should stop the test where it is"
)]

mod breaks;
use crate::command;
mod installer;
mod leftovers;
mod node;
mod refused;
mod sandbox;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use command::run;
use kata_configdev::doctor::finding::IDS;
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
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
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
        let after =
            ["fault ", "warning ", "note "].iter().find_map(|severity| line.split_once(severity));
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
    assert!(severities.map(|one| &one["severity"]).all(|one| one == "note"));
}

/// What no file of a node is broken for: who runs doctor, and which processes the machine has.
const UNBROKEN: [&str; 2] = ["not-root", "leftover-of-kata"];

#[test]
fn the_page_has_every_id() {
    let listed: BTreeSet<String> = IDS.map(str::to_owned).into();
    assert_eq!(table().into_keys().collect::<BTreeSet<_>>(), listed);
    let broken = breaks::all().map(|(id, _)| *id).chain(UNBROKEN);
    assert_eq!(broken.map(str::to_owned).collect::<BTreeSet<_>>(), listed);
}

/// Pages that lead people by what doctor prints name no id that it does not have.
#[test]
fn the_ids_on_other_pages_are_doctors() {
    let mut named = 0;
    for page in ["start/pod-does-not-start.md", "timeouts.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let text = std::fs::read_to_string(path.join(page)).unwrap();
        let kinds = IDS.map(|id| id.split('-').next().unwrap_or_default());
        for word in text.split('`').filter(|word| !word.ends_with("...")) {
            let is_id = word.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase())
                && word.split_once('-').is_some_and(|(kind, _)| kinds.contains(&kind));
            if is_id {
                named += 1;
                assert!(IDS.contains(&word), "{page}: {word}");
            }
        }
    }
    assert!(named >= 7, "{named}");
}

/// Of a file that only root reads, "sandboxes fail to read it" was said to everybody else.
#[test]
fn privileged_what_is_denied_to_the_caller_is_no_fault() {
    use std::os::unix::process::CommandExt;

    if skipped_without_root("another user") {
        return;
    }
    let node = Node::new();
    node.set_mode("", 0o755);
    node.set_mode(node::CONTAINERD, 0o600);
    node.put_program();
    let program = node.path("kata-configdev");
    let run = std::process::Command::new(&program)
        .args(["doctor", "--host-root", &node.root()])
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    assert_eq!(run.status.code(), Some(0), "{said}");
    let pattern = &table()["not-root"][0];
    assert!(said.lines().any(|line| matches(pattern, line)), "{said}");
    assert!(!said.contains("Permission denied"), "{said}");
    assert!(!said.contains("kubelet"), "{said}");
}

/// Words and paths of others were printed as they are, also in JSON.
#[test]
fn a_finding_is_safe_to_show_and_names_the_nodes_paths() {
    let node = Node::new();
    node.append(node::SETTINGS, "\"\u{9b}31m\u{202e}\" = 1\n");
    let json = doctor(&node, &["--json"]);
    json.ends(65);
    assert!(!json.stdout.contains(['\u{9b}', '\u{202e}']), "{}", json.stdout);

    let node = Node::new();
    for id in ["providers-invalid", "leftovers-unread"] {
        let (_, break_it) = breaks::all().find(|(own, _)| *own == id).unwrap();
        break_it(&node);
    }
    let link = format!("{}-link", node.root().trim_end_matches('/'));
    std::os::unix::fs::symlink(node.path(""), &link).unwrap();
    let name = Path::new(&link).file_name().unwrap().to_str().unwrap();
    for (host, directory) in [(link.as_str(), "/"), (name, "/tmp"), (".", &link)] {
        let arguments = ["doctor", "--host-root", host];
        let mut command = command::PROGRAM.command(&arguments);
        let parent = Path::new(&link).parent().unwrap();
        let directory = if directory == "/tmp" { parent } else { Path::new(directory) };
        let run = command::PROGRAM.finish(command.current_dir(directory));
        for line in [
            "/etc/eks/image-credential-provider/config.json: warning providers-invalid: ",
            "/run: warning leftovers-unread: what sandboxes left here is not looked at: failed to ",
        ] {
            let is_told = run.stdout.lines().any(|told| told.starts_with(line));
            assert!(is_told, "{line}: {run:?}");
        }
        let real = node.path("").canonicalize().unwrap();
        assert!(
            !run.stdout.contains(&link) && !run.stdout.contains(real.to_str().unwrap()),
            "{run:?}"
        );
    }
    std::fs::remove_file(link).unwrap();
}

#[test]
fn privileged_the_page_says_what_doctor_prints() {
    if skipped_without_root("giving a file away") {
        return;
    }
    let mut table = table();
    let mut untold = table.clone();
    let mut differences = Vec::new();
    for (id, break_it) in breaks::all() {
        let node = Node::new();
        break_it(&node);
        let run = doctor(&node, &[]);
        let has_fault = run.stdout.contains(": fault ");
        assert_eq!(run.code, if has_fault { 65 } else { 0 }, "{id}: {run:?}");
        let patterns = table.entry((*id).into()).or_default();
        let is_told = |pattern: &String| run.stdout.lines().any(|line| matches(pattern, line));
        if !patterns.iter().any(is_told) {
            differences.push(format!("{id}: no line is of {patterns:?}:\n{}", run.stdout));
        }
        if let Some(patterns) = untold.get_mut(*id) {
            patterns.retain(|pattern| !is_told(pattern));
        }
    }
    for id in UNBROKEN {
        untold.remove(id);
    }
    untold.retain(|_, patterns| !patterns.is_empty());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(untold.is_empty(), "nothing is broken that way: {untold:?}");
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
        "/opt/kata-configdev: warning installation-unread: ",
    ]);
    fifo(node::DOCUMENT);
    node.remove(node::SETTINGS);
    symlink("/etc/passwd", node.path(node::SETTINGS)).unwrap();
    let run = doctor(&node, &[]);
    run.ends(65).prints(&["fault settings-missing: "]);
    node.remove(node::SETTINGS);
    node.put(node::SETTINGS, "document = \"/etc/kata-configdev/imagepuller.toml\"\n");
    let run = doctor(&node, &[]);
    run.ends(65).prints(&["fault document-unread: ", "it is not a regular file"]);
}
