//! The off switch of a set, and what the agent tells of one that somebody threw on the node.

use std::fs;

use test_command::wait_until;

use crate::installer::agent::{Agent, Node};
use crate::installer::machine::document;
use crate::installer::process::get;

const TOLD: &str = "the set default is turned off on this node (";

/// Waits for the value of the switch in the metrics.
fn wait_for_switch(agent: &Agent, value: u8) {
    let address = agent.address("/metrics");
    let line = format!("kata_configdev_set_enabled{{set=\"default\"}} {value}\n");
    wait_until(&line, || get(address, "/metrics").contains(&line));
}

/// Neither the log nor the metrics said so, and a set that was off for a year looked fine.
#[test]
fn a_switch_thrown_on_the_node_is_told() {
    let mut node = Node::new();
    node.mount_document(&document("one"));
    let agent = Agent::start(&node);
    wait_until("readiness", || node.probe("ready").0);
    wait_for_switch(&agent, 1);
    let settings = node.path("prefix/default/etc/kata-configdev");
    let drop_in = settings.join("config.d/99-off.toml");
    fs::create_dir(settings.join("config.d")).unwrap();
    fs::write(&drop_in, "# maintenance\nenabled = false\n").unwrap();
    wait_for_switch(&agent, 0);
    let told = format!("{TOLD}{}:2): its sandboxes get no", drop_in.display());
    wait_until("the warning", || agent.log().contains(&told));
    assert!(node.probe("ready").0, "it is as somebody wants it");
    // Another pass says no more: a file of Kata's directory that changes nothing.
    let passes = || {
        let metrics = get(agent.address("/metrics"), "/metrics");
        let (_, count) = metrics.split_once("\nkata_configdev_passes_total ").unwrap();
        count.lines().next().unwrap().parse::<u64>().unwrap()
    };
    let before = passes();
    fs::write(node.path("kata/qemu-snp/notes"), "").unwrap();
    wait_until("another pass", || passes() > before);
    assert_eq!(agent.log().matches(TOLD).count(), 1, "{}", agent.log());

    fs::remove_file(&drop_in).unwrap();
    wait_for_switch(&agent, 1);
    // The settings themselves count as well, which are then no longer as they were installed.
    let file = settings.join("config.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("enabled = false\n{text}")).unwrap();
    wait_for_switch(&agent, 0);
    let told = format!("{TOLD}{}:1)", file.display());
    wait_until("the warning", || agent.log().contains(&told));
    let (ready, why) = node.probe("ready");
    assert!(!ready && why.contains("somebody else wrote or changed"), "{why}");
}

/// Nothing on the node is off where the settings could not be written, and the metric said so.
#[test]
fn a_set_is_not_off_as_long_as_nothing_on_the_node_is() {
    let mut node = Node::new();
    node.mount_document(&document("one"));
    node.enabled = false;
    node.qemu = "kata".into();
    let main = node.path("kata/qemu-snp/configuration.toml");
    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, "#".repeat((256 << 10) + 1)).unwrap();
    let agent = Agent::start(&node);
    assert_eq!(node.probe("started"), (true, "started\n".into()));
    wait_for_switch(&agent, 1);
    let told = "enabled = false of the set default is not written";
    wait_until("the reason", || agent.log().contains(told));
    fs::write(&main, text).unwrap();
    wait_for_switch(&agent, 0);
    assert!(!agent.log().contains(TOLD), "it is off by its configuration");
}
