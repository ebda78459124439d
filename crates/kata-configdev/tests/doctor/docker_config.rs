//! The kubelet's own docker credentials, which guests do not have.

use crate::doctor::doctor;
use crate::doctor::node::{DOCUMENT, Node, SETTINGS};

const ID: &str = "kubelet-docker-config";

/// An `auths` with an account for each of these.
fn auths(hosts: &[&str]) -> String {
    let entries =
        hosts.iter().map(|host| format!("{host:?}:{{\"auth\":\"cm9ib3Q6aHVudGVyMg==\"}}"));
    let entries: Vec<String> = entries.collect();
    format!("{{\"auths\":{{{}}}}}", entries.join(","))
}

/// What is said of the files, and of which one.
fn told(node: &Node) -> Vec<(String, String)> {
    let run = doctor(node, &["--json"]);
    assert!(!run.stdout.contains("hunter2") && !run.stdout.contains("cm9ib3Q6"));
    let json = run.json();
    let findings = json["findings"].as_array().unwrap().iter();
    let own = findings.filter(|finding| finding["id"] == ID);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    own.map(|finding| (text(&finding["path"]), text(&finding["message"]))).collect()
}

/// The kubelet takes the first file that it can read, config.json before .dockercfg.
#[test]
fn the_file_that_the_kubelet_reads_is_the_one_that_is_told() {
    let one = auths(&["one.corp"]);
    let two = auths(&["two.corp"]);
    let legacy = "{\"three.corp\":{\"username\":\"robot\",\"password\":\"hunter2\"}}";
    let root_dir = "KUBELET_EXTRA_ARGS=--root-dir=/data/kubelet\n";
    for (files, path, host) in [
        (&[("var/lib/kubelet/config.json", &*one)][..], "/var/lib/kubelet/config.json", "one.corp"),
        (&[("root/.docker/config.json", &one)], "/root/.docker/config.json", "one.corp"),
        (&[(".docker/config.json", &one)], "/.docker/config.json", "one.corp"),
        (&[("config.json", &one)], "/config.json", "one.corp"),
        (&[("var/lib/kubelet/.dockercfg", legacy)], "/var/lib/kubelet/.dockercfg", "three.corp"),
        (&[(".dockercfg", legacy)], "/.dockercfg", "three.corp"),
        (&[("root/.dockercfg", legacy)], "/root/.dockercfg", "three.corp"),
        (
            &[
                ("var/lib/kubelet/.dockercfg", legacy),
                ("root/.docker/config.json", &two),
                ("var/lib/kubelet/config.json", "not JSON"),
            ],
            "/root/.docker/config.json",
            "two.corp",
        ),
        (
            &[
                ("etc/default/kubelet", root_dir),
                ("var/lib/kubelet/config.json", &one),
                ("data/kubelet/config.json", &two),
            ],
            "/data/kubelet/config.json",
            "two.corp",
        ),
    ] {
        let node = Node::new();
        for (name, text) in files {
            node.put(name, text);
        }
        let found = told(&node);
        let [(own, message)] = &found[..] else {
            panic!("{files:?}: {found:?}");
        };
        assert_eq!(own, path, "{files:?}");
        let expected = format!("with credentials for {host} from here, ");
        assert!(message.contains(&expected), "{message}");
        let remedy = format!("--into /etc/kata-configdev/imagepuller.toml {path} > new.toml");
        assert!(message.ends_with(&remedy), "{message}");
    }
}

#[test]
fn what_the_document_has_too_is_not_told() {
    let node = Node::new();
    let file = "var/lib/kubelet/config.json";
    node.put(file, &auths(&["a.corp"]));
    assert_eq!(told(&node), []);
    // The kubelet would not look further either.
    node.put("root/.docker/config.json", &auths(&["b.corp"]));
    assert_eq!(told(&node), []);
    node.put(file, &auths(&["a.corp", "b.corp", "c.corp", "d.corp/team", "e.corp", "f.corp"]));
    let found = told(&node);
    assert!(found[0].1.contains(" b.corp, c.corp, d.corp/team and 2 more from "), "{found:?}");
    node.append(DOCUMENT, "[registries.\".corp\"]\nusername = \"x\"\npassword = \"y\"\n");
    assert_eq!(told(&node), []);
    node.append(SETTINGS, "enabled = false\n");
    node.put(file, &auths(&["other.example"]));
    assert_eq!(told(&node), []);
}
