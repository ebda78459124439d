//! What a removal leaves, and the commands that remove it: those of `deploy/README.md`, and the one
//! that the removal says.

use std::fs;
use std::path::Path;
use std::process::Command;

use test_command::wait_until;

use crate::installer::agent::{Agent, Node, PROGRAM, Sandbox};
use crate::installer::machine::document;

/// The commands of the page that name `what`.
fn commands(what: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/README.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("### What a removal leaves in `/run`").unwrap();
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
    let (living, dead) = (Sandbox::start(&node, "living"), Sandbox::start(&node, "dead"));
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
    for name in ["credential-providers", "refusals"] {
        fs::create_dir_all(kept.join(name)).unwrap();
        fs::write(kept.join(name).join("x"), "").unwrap();
    }
    run(&node, "credential-providers");
    assert_eq!(fs::read_dir(kept).unwrap().count(), 0);
}

/// It named `kata-configdev sweep`, which failed to read the settings that were gone, so that the
/// image with the password stayed; and last it said that everything was as it should be.
#[test]
fn the_last_line_of_a_removal_works_as_printed() {
    for goes in [false, true] {
        let mut node = Node::new();
        node.mount_document(&document("one"));
        let install = |program: &Path, command: &str| {
            let output = Command::new(program)
                .args([command, "--config"])
                .arg(node.configuration())
                .output()
                .unwrap();
            let log = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{log}");
            log
        };
        install(PROGRAM.as_ref(), "install");
        let sandbox = Sandbox::start(&node, "living");
        let program = match goes {
            true => node.path("prefix/default/bin/kata-configdev"),
            false => PROGRAM.into(),
        };
        let log = install(&program, "uninstall");
        assert_eq!(program.exists(), !goes, "{log}");
        let last = log.lines().last().unwrap();
        let (said, command) = last.rsplit_once(": ").expect(&log);
        assert!(said.contains("that still have a configuration in /"), "{log}");
        assert_eq!(command.contains(PROGRAM), !goes, "{log}");
        let run = || {
            let ran = Command::new("/bin/sh").args(["-uc", command]).output();
            let ran = ran.unwrap();
            assert_eq!(ran.stderr, b"", "{command}: {ran:?}");
        };
        // What runs keeps what it has.
        run();
        assert_eq!(node.disk("living"), Some(document("one")));
        drop(sandbox);
        run();
        let shared = node.path("run/kata-containers/shared/initdata");
        assert_eq!(fs::read_dir(shared).unwrap().count(), 0, "{command}");
    }
}
