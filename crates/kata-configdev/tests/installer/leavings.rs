//! What `deploy/README.md` says about the leavings of a removal.

use std::fs;
use std::path::Path;
use std::process::Command;

use test_command::wait_until;

use crate::agent::{Agent, Node, Sandbox};
use crate::machine::document;

/// The commands of the page that name `what`.
fn commands(what: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/README.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page
        .split_once("### What a removal leaves in `/run`")
        .unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut blocks = section.split("```sh\n").skip(1);
    let block = blocks.find_map(|block| block.split("```").next().filter(|it| it.contains(what)));
    block.unwrap().to_owned()
}

/// Runs the commands on the node, as a root user would.
fn run(node: &Node, what: &str) {
    let run = format!("{}/", node.path("run").display());
    let text = commands(what).replace("/run/", &run);
    let output = Command::new("/bin/sh").args(["-uc", &text]).output();
    let errors = String::from_utf8(output.unwrap().stderr).unwrap();
    assert_eq!(errors, "", "{text}");
}

#[test]
fn the_commands_of_the_page_remove_what_dead_sandboxes_left_and_nothing_else() {
    let mut node = Node::new();
    node.mount_document(&document("one"));
    let mut agent = Agent::start(&node);
    wait_until("readiness", || node.probe("ready").0);
    // Nobody comes again.
    agent.process.kill().unwrap();
    agent.process.wait().unwrap();
    let (living, dead) = (
        Sandbox::start(&node, "living"),
        Sandbox::start(&node, "dead"),
    );
    let shared = node.path("run/kata-containers/shared/initdata");
    fs::create_dir(shared.join("other")).unwrap();
    fs::write(shared.join("other/data.img"), "Kata's").unwrap();
    drop(dead);
    assert_eq!(node.disk("dead"), Some(document("one")));
    run(&node, "imagepuller.json");
    assert!(!shared.join("dead").exists());
    assert_eq!(node.disk("living"), Some(document("one")));
    assert!(shared.join("other/data.img").exists());
    drop(living);
    run(&node, "imagepuller.json");
    assert!(!shared.join("living").exists() && shared.join("other/data.img").exists());

    let kept = node.path("run/kata-configdev");
    for name in ["credential-providers", "refused", "scratch"] {
        fs::create_dir_all(kept.join(name)).unwrap();
        fs::write(kept.join(name).join("x"), "").unwrap();
    }
    run(&node, "credential-providers");
    let left = fs::read_dir(kept).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["scratch"]);
}
