//! The node agent asks the kubelet's plugins in the wrapper's place, and brings what they say.

use std::fs;
use std::path::Path;
use std::process::Command;

use kata_configdev::providers::agent::is_promised;
use kata_configdev::settings::Settings;
use registry_config::Document;
use test_command::wait_until;

use crate::installer::agent::{Agent, Node, Sandbox};
use crate::installer::machine::document;

/// In memory, where failures of plugins are remembered.
const IN_MEMORY: &str = "/dev/shm";

/// A plugin that waits for a file `go`, or for the end of the test, before it answers. It notes who
/// runs it.
const WAITS: &str = "[ -z \"$OF_AGENT\" ] && echo wrapper >>HERE/asked || echo agent >>HERE/asked\n\
    while [ -d HERE ] && [ ! -e HERE/go ]; do sleep 0.02; done";

/// A node whose plugins are for a registry of their own name each, and do something before they
/// answer.
fn node(place: &Path, plugins: &[(&str, &str)]) -> Node {
    let mut node = Node::new_in(place);
    let here = node.path("").display().to_string();
    let here = here.trim_end_matches('/');
    fs::create_dir(node.path("plugins")).unwrap();
    let mut listed = Vec::new();
    for (name, first) in plugins {
        let first = first.replace("HERE", here);
        let script = format!(
            "#!/bin/sh\nread question\n{first}\necho '{{\"kind\":\"CredentialProviderResponse\",\
             \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
             \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"0s\",\"auth\":{{\"{name}.corp\":\
             {{\"username\":\"{name}\",\"password\":\"token\"}}}}}}'\n"
        );
        let written = Command::new("/bin/sh")
            .args(["-c", "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\""])
            .arg(node.path(&format!("plugins/{name}")))
            .arg(script)
            .status();
        assert!(written.unwrap().success());
        listed.push(format!(
            r#"{{"name":"{name}","matchImages":["{name}.corp"],"defaultCacheDuration":"0s",
            "apiVersion":"credentialprovider.kubelet.k8s.io/v1"}}"#
        ));
    }
    let text = format!(
        r#"{{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1",
        "providers":[{}]}}"#,
        listed.join(",")
    );
    fs::write(node.path("plugins.json"), text).unwrap();
    node.more = "providers = true\n".into();
    node.settings = format!(
        "[sets.default.settings.credential-providers]\nconfig = {:?}\nbin-dir = {:?}\n\
         registries = \"matchImages\"\n",
        node.path("plugins.json"),
        node.path("plugins")
    );
    node.mount_document(&document("one"));
    node
}

/// An agent that has tried its plugins, and makes the wrapper rely on it.
fn relied_on(node: &Node) -> Agent {
    let agent = Agent::start(node);
    wait_until("the promise", || promised(node));
    agent
}

fn promised(node: &Node) -> bool {
    let settings = node.path("prefix/default/etc/kata-configdev/config.toml");
    let settings = Settings::load(&settings).ok();
    let document = settings.and_then(|settings| settings.document);
    document.is_some_and(|document| is_promised(&node.path("run"), &document))
}

fn hang(node: &Node) {
    fs::remove_file(node.path("go")).unwrap();
}

fn answer(node: &Node) {
    fs::write(node.path("go"), "").unwrap();
}

/// Whether the sandbox has the password of a plugin.
fn has(node: &Node, sandbox: &str, plugin: &str) -> bool {
    let text = node.disk(sandbox).unwrap_or_default();
    let document = Document::parse(text.as_bytes()).unwrap().document;
    let mut entries = document.registries.iter();
    entries.any(|(name, entry)| {
        name.to_string() == format!("{plugin}.corp.") && !entry.credentials.is_anonymous()
    })
}

fn asked(node: &Node) -> String {
    fs::read_to_string(node.path("asked")).unwrap_or_default()
}

/// A plugin that hangs cost the first sandbox the whole deadline, and later ones again and again.
#[test]
fn no_sandbox_waits_for_a_plugin_that_the_agent_asks() {
    let mut node = node(Path::new(IN_MEMORY), &[("slow", WAITS)]);
    node.settings += "deadline-secs = 60\n";
    answer(&node);
    let _agent = relied_on(&node);
    hang(&node);
    // The plugin answers to nobody before both QEMUs run.
    let _sandboxes = [Sandbox::start(&node, "one"), Sandbox::start(&node, "two")];
    for sandbox in ["one", "two"] {
        assert_eq!(node.disk(sandbox), Some(document("one")));
    }
    wait_until("the question", || asked(&node) == "agent\nagent\n");
    let explained = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
        .args(["explain", "--sandbox"])
        .arg(node.path("bundle"))
        .arg("--settings")
        .arg(node.path("prefix/default/etc/kata-configdev/config.toml"))
        .output()
        .unwrap();
    let told = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.status.success(), "{told}");
    assert!(told.contains("credential provider slow: the node agent asks it\n"), "{told}");
    answer(&node);
    wait_until("the passwords", || has(&node, "one", "slow") && has(&node, "two", "slow"));
    assert!(!asked(&node).contains("wrapper"));
}

/// The agent is killed while a plugin keeps it waiting, and a sandbox relies on it.
#[test]
fn an_agent_that_starts_again_asks_for_who_relied_on_it() {
    let mut node = node(Path::new(IN_MEMORY), &[("slow", WAITS)]);
    node.settings += "deadline-secs = 60\n";
    answer(&node);
    let agent = relied_on(&node);
    hang(&node);
    let _sandbox = Sandbox::start(&node, "left");
    wait_until("the question", || asked(&node) == "agent\nagent\n");
    drop(agent);
    answer(&node);
    // Without an agent the wrapper asks itself, and whoever was left before stays so.
    let _other = Sandbox::start(&node, "other");
    assert!(has(&node, "other", "slow") && !has(&node, "left", "slow"));
    assert_eq!(asked(&node), "agent\nagent\nwrapper\n");
    let _agent = Agent::start(&node);
    wait_until("the password", || has(&node, "left", "slow"));
}

/// A guest that reads its disk once has no use for what comes later.
#[test]
fn the_wrapper_asks_by_itself_where_it_is_told_to_or_the_image_is_sealed() {
    for (before, behind) in [("", "leave-to-agent = false\n"), ("transport = \"memory\"\n", "")] {
        let mut node = node(Path::new(IN_MEMORY), &[("quick", WAITS)]);
        node.settings = format!("{before}{}{behind}", node.settings);
        answer(&node);
        let _agent = relied_on(&node);
        let _sandbox = Sandbox::start(&node, "box");
        assert!(asked(&node).contains("wrapper"), "{before}{behind}");
    }
}

/// Of two plugins one hangs: nobody has to do without what the other one says.
#[test]
fn what_one_plugin_says_arrives_although_another_hangs() {
    let mut node = node(Path::new(IN_MEMORY), &[("quick", ""), ("slow", WAITS)]);
    node.settings += "deadline-secs = 1\n";
    let agent = relied_on(&node);
    let _sandbox = Sandbox::start(&node, "box");
    assert_eq!(node.disk("box"), Some(document("one")));
    wait_until("the first password", || has(&node, "box", "quick"));
    assert!(!has(&node, "box", "slow"));
    answer(&node);
    wait_until("the second password", || has(&node, "box", "slow"));
    assert!(has(&node, "box", "quick"));
    assert!(!agent.log().contains("token"));
}

/// A program that is not static does not start in the agent's container, but on the node.
#[test]
fn an_agent_whose_plugin_fails_leaves_it_to_the_wrapper() {
    let fails = "[ -z \"$OF_AGENT\" ] || { echo agent >>HERE/asked; exit 1; }";
    // On a disk, where no failure is remembered.
    let node = node(&std::env::temp_dir(), &[("host", fails)]);
    let _agent = Agent::start(&node);
    wait_until("the attempt", || asked(&node).contains("agent"));
    assert!(!promised(&node));
    let _sandbox = Sandbox::start(&node, "box");
    assert!(has(&node, "box", "host"), "{}", asked(&node));
}

/// The metadata service of a cloud may answer to the node's network alone.
#[test]
fn an_agent_whose_plugin_only_hangs_leaves_it_to_the_wrapper() {
    let hangs = "[ -z \"$OF_AGENT\" ] || { echo agent >>HERE/asked\n\
         while [ -d HERE ]; do sleep 0.02; done; }";
    // On a disk, where no failure is remembered.
    let mut node = node(&std::env::temp_dir(), &[("host", hangs)]);
    node.settings += "deadline-secs = 1\n";
    let agent = Agent::start(&node);
    wait_until("the attempt", || asked(&node).contains("agent"));
    let _one = Sandbox::start(&node, "one");
    // It says so in the pass after the one in which it tried.
    wait_until("the warning", || agent.log().contains("host"));
    let _two = Sandbox::start(&node, "two");
    assert!(has(&node, "two", "host"), "{}", asked(&node));
    assert!(!promised(&node));
}
