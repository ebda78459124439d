//! What is known of one sandbox.

use crate::command::PROGRAM;
use crate::doctor::node::Node;

#[test]
fn what_is_known_of_a_sandbox_is_joined() {
    let id = "3f1c0d9a5b7e";
    let node = Node::new();
    let bundle = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
    let spec = r#"{"annotations":{"io.katacontainers.config.runtime.imagepuller_config":
        "/etc/kata-configdev/documents/team-a.toml"}}"#;
    node.put(&format!("{bundle}/config.json"), spec);
    let document = "etc/kata-configdev/documents/team-a.toml";
    node.put(document, "");
    let root = node.root();
    let arguments = ["doctor", "--host-root", &root, "--sandbox", id, "--json"];
    let json = PROGRAM.run(&arguments).json();
    let sandbox = &json["sandbox"];
    let document = "/etc/kata-configdev/documents/team-a.toml, by the pod's annotation";
    assert_eq!(sandbox["document"], document);
    assert_eq!(sandbox["bundle"], format!("/{bundle}"));
    assert!(sandbox["refused"].is_null(), "{json}");

    let refusals = "run/kata-configdev/refusals";
    let line = format!("kata-configdev-qemu: sandbox {id}: failed to x: y");
    node.put(&format!("{refusals}/{id}"), &format!("pod\n{line}\u{202e}\n"));
    assert_eq!(PROGRAM.run(&arguments).json()["sandbox"]["refused"], format!("{line}\\u{{202e}}"));
    PROGRAM.run(&arguments[..5]).prints(&[&format!("\n  refused   {line}")]);
}

/// A document was named that the sandbox does not get.
#[test]
fn the_document_of_a_sandbox_is_what_the_wrapper_gives_it() {
    let id = "3f1c0d9a5b7e";
    let bundle = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
    let spec = |more: &str| {
        format!(
            r#"{{"annotations":{{{more}"io.kubernetes.cri.sandbox-namespace":"team-a",
            "io.kubernetes.cri.container-type":"sandbox"}}}}"#
        )
    };
    let annotation = |value: &str| {
        spec(&format!(r#""io.katacontainers.config.runtime.imagepuller_config":"{value}","#))
    };
    let tenants = "document = \"/etc/kata-configdev/tenants/{namespace}.toml\"\n\
        engine = \"containerd\"\n";
    let settings = "/etc/kata-configdev/config.toml";
    for (settings_text, spec, document) in [
        (
            "",
            annotation("/etc/shadow"),
            "none, by SETTINGS: the wrapper fails to use the annotation \
             io.katacontainers.config.runtime.imagepuller_config: /etc/shadow is not below a \
             directory of annotation-allow",
        ),
        ("enabled = false\n", annotation("/etc/shadow"), "none, by SETTINGS: enabled = false"),
        (
            "document = \"/etc/kata-configdev/imagepuller.toml\"\n",
            spec(""),
            "/etc/kata-configdev/imagepuller.toml, by SETTINGS",
        ),
        ("", annotation(""), "none: the pod's annotation is empty"),
        (
            &format!("{tenants}namespace-fallback = \"none\"\n"),
            spec(""),
            "none, by SETTINGS: its namespace has none (namespace-fallback)",
        ),
        (
            tenants,
            spec(""),
            "none, by SETTINGS: the wrapper fails to read the document of the namespace team-a: \
             there is no /etc/kata-configdev/tenants/team-a.toml",
        ),
        (
            &format!("{tenants}namespace-fallback = \"/etc/kata-configdev/imagepuller.toml\"\n"),
            spec(""),
            "/etc/kata-configdev/imagepuller.toml, because \
             /etc/kata-configdev/tenants/team-a.toml is not there, by SETTINGS",
        ),
        (
            "document = \"/etc/none.toml\"\nmissing-document = \"late\"\n",
            spec(""),
            "/etc/none.toml, which is not there, so that the guest gets the words of \
             missing-document, by SETTINGS",
        ),
    ] {
        let node = Node::new();
        std::fs::create_dir(node.path("etc/kata-configdev/tenants")).unwrap();
        node.put(crate::doctor::node::SETTINGS, settings_text);
        node.put(&format!("{bundle}/config.json"), &spec);
        let arguments = ["doctor", "--host-root", &node.root(), "--sandbox", id, "--json"];
        let json = PROGRAM.run(&arguments).json();
        let expected = document.replace("SETTINGS", settings);
        assert_eq!(json["sandbox"]["document"], expected, "{settings_text}");
    }
}
