//! Answers of the kubelet's credential providers, renewed in living sandboxes.

use std::fs;
use std::path::Path;
use std::process::Command;

use kata_configdev::choice::DocumentText;
use kata_configdev::providers::{self, Kept};
use kata_configdev::settings::Settings;
use registry_config::{Credentials, Document};
use test_command::wait_until;
use zeroize::Zeroizing;

use crate::installer::agent::{Agent, Node, Sandbox};
use crate::installer::machine::document;
use crate::installer::process::get;

/// A file system in memory: answers are kept on no other.
const IN_MEMORY: &str = "/dev/shm";

/// A node whose plugin answers with a count, for 15 seconds each, or not at all while there is a
/// file `down`.
fn node() -> Node {
    let mut node = Node::new_in(Path::new(IN_MEMORY));
    fs::create_dir(node.path("plugins")).unwrap();
    let script = format!(
        "#!/bin/sh\nread question\n[ ! -e {0}/down ] || exit 1\nprintf x >>{0}/count\n\
         n=$(wc -c <{0}/count)\n\
         echo '{{\"kind\":\"CredentialProviderResponse\",\
         \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"cacheKeyType\":\"Registry\",\
         \"cacheDuration\":\"15s\",\"auth\":{{\"ecr.corp\":{{\"username\":\"aws\",\
         \"password\":\"token-'$n'\"}}}}}}'\n",
        node.path("").display()
    );
    let written = Command::new("/bin/sh")
        .args(["-c", "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\""])
        .arg(node.path("plugins/ecr"))
        .arg(script)
        .status();
    assert!(written.unwrap().success());
    fs::write(
        node.path("plugins.json"),
        r#"{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":
        [{"name":"ecr","matchImages":["*.corp"],"defaultCacheDuration":"1h",
        "apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}"#,
    )
    .unwrap();
    node.more = "providers = true\n".into();
    node.settings = format!(
        "[sets.default.settings.credential-providers]\nconfig = {:?}\nbin-dir = {:?}\n\
         registries = [\"ecr.corp\"]\n",
        node.path("plugins.json"),
        node.path("plugins")
    );
    node
}

/// The number in the token that the sandbox has.
fn token(node: &Node) -> Option<u32> {
    let text = node.disk("box")?;
    let document = Document::parse(text.as_bytes()).ok()?.document;
    let mut entries = document.registries.iter();
    let (_, entry) = entries.find(|(name, _)| name.to_string().starts_with("ecr.corp"))?;
    let Credentials::Basic { password, .. } = &entry.credentials else {
        return None;
    };
    password.expose().strip_prefix("token-")?.parse().ok()
}

/// A token of a cloud lives for hours, and a sandbox that was older once pulled no more.
#[test]
fn answers_are_renewed_before_they_expire() {
    let mut node = node();
    node.mount_document(&document("one"));
    let agent = Agent::start(&node);
    wait_until("readiness", || node.probe("ready").0);
    // A first failure is an increase only of what was there before.
    let metrics = get(agent.address("/metrics"), "/metrics");
    let line = "kata_configdev_provider_failures_total{set=\"default\",provider=\"ecr\"} 0\n";
    assert!(metrics.contains(line), "{metrics}");
    let _sandbox = Sandbox::start(&node, "box");
    wait_until("the first token", || token(&node).is_some());
    let first = token(&node).unwrap();
    // Nobody touches anything.
    node.mount_document(&document("two"));
    wait_until("the document", || {
        node.disk("box").is_some_and(|text| text.contains(&document("two")))
    });
    wait_until("a newer token", || token(&node) > Some(first));
    assert!(node.disk("box").unwrap().contains(&document("two")));

    // Without an answer a sandbox keeps what it has, and the node says so.
    fs::write(node.path("down"), "").unwrap();
    wait_until("the failure", || agent.log().contains("ecr"));
    let kept = token(&node);
    assert!(kept > Some(first));
    let metrics = get(agent.address("/metrics"), "/metrics");
    let label = "{set=\"default\",provider=\"ecr\"} ";
    for name in ["provider_answers_total", "provider_failures_total"] {
        assert!(metrics.contains(&format!("kata_configdev_{name}{label}")), "{metrics}");
    }
    assert!(!agent.log().contains("token-") && !metrics.contains("token-"));
    let line = "kata_configdev_sandboxes{set=\"default\",document=\"unseen\"} 1\n";
    let address = agent.address("/metrics");
    wait_until("the count", || get(address, "/metrics").contains(line));
    fs::remove_file(node.path("down")).unwrap();
    wait_until("a token again", || token(&node) > kept);
}

/// A plugin that failed is not asked again for a while, so that sandboxes start at once. They get
/// the password as soon as the agent has heard it.
#[test]
fn a_sandbox_that_started_without_an_answer_gets_it() {
    let mut node = node();
    node.mount_document(&document("one"));
    fs::write(node.path("down"), "").unwrap();
    let _agent = Agent::start(&node);
    wait_until("readiness", || node.probe("ready").0);
    let _sandboxes = [Sandbox::start(&node, "other"), Sandbox::start(&node, "box")];
    assert_eq!(node.disk("box"), Some(document("one")));
    fs::remove_file(node.path("down")).unwrap();
    node.mount_document(&document("two"));
    wait_until("the token", || token(&node).is_some());
    assert!(node.disk("box").unwrap().contains(&document("two")));
}

/// A sandbox that was older than its secret never got it where the settings name registries for
/// plugins and the agent asks none: nothing was written, and nothing said so.
#[test]
fn a_refusal_ends_with_the_secret_whatever_plugins_do() {
    let mut node = node();
    node.more.clear();
    node.mount(&[]);
    let agent = Agent::start(&node);
    assert_eq!(node.probe("started"), (true, "started\n".into()));
    let _sandbox = Sandbox::start(&node, "box");
    assert!(node.disk("box").unwrap().starts_with("node-error"));
    node.mount_document(&document("one"));
    wait_until("the secret", || node.disk("box") == Some(document("one")));
    // What more it could hold, nobody knows: the next one is not written, and that is said. It is as
    // the configuration wants it, so it must not look like what an alert is for.
    node.mount_document(&document("two"));
    wait_until("the warning", || {
        agent.log().contains("set default: living sandboxes keep what their disks hold")
    });
    assert_eq!(node.disk("box"), Some(document("one")));
    let line = "kata_configdev_sandboxes{set=\"default\",document=\"kept\"} 1\n";
    let address = agent.address("/metrics");
    wait_until("the count", || get(address, "/metrics").contains(line));
    assert!(!get(address, "/metrics").contains("\"unseen\""));
}

/// The agent sees the node below a directory, and asked again what the wrapper had kept.
#[test]
fn an_answer_is_kept_for_every_view_of_the_node() {
    let node = node();
    std::os::unix::fs::symlink(node.path(""), node.path("host")).unwrap();
    let file = node.path("settings.toml");
    let ask = |view: &Path| {
        let text = format!(
            "qemu = \"/bin/true\"\nrun-root = {:?}\n[credential-providers]\nconfig = {:?}\n\
             bin-dir = {:?}\nregistries = [\"ecr.corp\"]\n",
            node.path("run"),
            node.path("plugins.json"),
            view.join("plugins")
        );
        fs::write(&file, text).unwrap();
        let settings = Settings::load(&file).unwrap();
        let (text, document) = (DocumentText::from(Zeroizing::default()), Document::default());
        let (merged, contribution) = providers::add(&settings, (&text, &document), Kept::Used);
        assert!(merged.is_some(), "{:?}", contribution.lines);
    };
    ask(&node.path(""));
    ask(&node.path("host"));
    assert_eq!(fs::read_to_string(node.path("count")).unwrap(), "x");
}
