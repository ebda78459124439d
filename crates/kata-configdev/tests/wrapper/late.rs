//! Sandboxes that start before their document is there.

use std::path::PathBuf;

use config_image::{Magic, decode};

use crate::wrapper::node::Node;
use crate::wrapper::refusal::{SANDBOX, run};

const REASON: &str = "the secret kata/registries has not arrived on this node";

/// A node without its document, whose settings have words for that.
fn node() -> Node {
    let node = Node::new("/bin/echo");
    std::fs::create_dir(node.path("run")).unwrap();
    std::fs::remove_file(node.path("document.toml")).unwrap();
    node.add_settings(&format!(
        "transport = \"file\"\nrun-root = {:?}\nmissing-document = {REASON:?}\n",
        node.path("run")
    ));
    node
}

fn image(node: &Node) -> PathBuf {
    node.path("run/kata-containers/shared/initdata/0123/imagepuller.img")
}

/// Before, the choice was between a sandbox that fails and settings without a document, which let
/// the guest pull anonymously for its whole life.
#[test]
fn a_sandbox_may_be_older_than_its_document() {
    let node = node();
    let output = run(&node, &SANDBOX);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let image = std::fs::read(image(&node)).unwrap();
    assert_eq!(image.len(), 64 << 10, "room for the document");
    let found = decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
    assert_eq!(
        String::from_utf8(found.document.to_vec()).unwrap(),
        format!("node-error = {REASON:?}\n")
    );
}

#[test]
fn what_is_there_and_wrong_still_fails() {
    let node = node();
    node.write("document.toml", "miror = 1\n");
    let output = run(&node, &SANDBOX);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(65), "{stderr}");
    assert!(stderr.contains("miror"), "{stderr}");
    assert!(!image(&node).exists());
}
