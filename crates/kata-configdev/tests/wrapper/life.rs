//! Whether a sandbox lives, told by the lock that its hypervisor holds.

use std::path::Path;
use std::time::Duration;

use config_image::{Magic, decode};
use kata_configdev::sandbox_id::SandboxId;
use kata_configdev::shared_image::record::{self, Life, Record};
use kata_configdev::sweep::{sweep, sweep_released};

use crate::wrapper::node::Node;
use crate::wrapper::process::{WAITING_PROGRAM, Waiting};
use crate::wrapper::refusal::SANDBOX;

const LONG: Duration = Duration::from_secs(3600);

fn node(settings: &str) -> Node {
    let node = Node::new("/bin/true");
    node.program("qemu", "700", WAITING_PROGRAM);
    node.set_qemu(node.path("qemu"));
    std::fs::create_dir(node.path("run")).unwrap();
    let run = node.path("run");
    node.add_settings(&format!("transport = \"file\"\nrun-root = {run:?}\n{settings}"));
    node
}

fn start(node: &Node) -> Waiting {
    let mut command = node.wrapper();
    command.args(SANDBOX);
    Waiting::start(command)
}

fn id() -> SandboxId {
    SandboxId::parse("0123").unwrap()
}

fn swept(run: &Path) -> usize {
    let swept = sweep_released(run, LONG).unwrap();
    assert!(swept.failed.is_empty(), "{swept:?}");
    swept.removed.len()
}

/// In a container nobody sees the node's processes. A sweep that took those for dead removed the
/// images of living sandboxes, or had to leave those of dead ones for ever.
#[test]
fn a_sandbox_lives_as_long_as_its_hypervisor_and_no_longer() {
    for kill in [false, true] {
        let node = node("");
        let (run, id) = (node.path("run"), id());
        let mut waiting = start(&node);
        assert_eq!(
            record::read(&run, &id).unwrap(),
            Some(Record {
                document: Some(node.path("document.toml")),
                held: true,
                ..Record::default()
            })
        );
        assert_eq!(record::life(&run, &id).unwrap(), Life::Held);
        assert_eq!(swept(&run), 0);
        // The lock is the one descriptor more, and nobody can change the record through it.
        let record = record::path(&run, &id);
        let descriptors = waiting.descriptors().into_values();
        let locks: Vec<_> = descriptors.filter(|one| one.target == record).collect();
        assert_eq!(locks.len(), 1, "{locks:?}");
        assert_eq!(locks[0].flags() & 0o2_000_003, 0, "read-only, kept: {locks:?}");

        if kill {
            waiting.child.kill().unwrap();
            waiting.child.wait().unwrap();
        } else {
            waiting.finish();
        }
        assert_eq!(record::life(&run, &id).unwrap(), Life::Released);
        // The other sweep knows it too, however young it is.
        if kill {
            assert_eq!(sweep(&run, LONG).unwrap().removed, [id]);
        } else {
            assert_eq!(swept(&run), 1);
        }
        let left = run.join("kata-containers/shared/initdata");
        assert_eq!(std::fs::read_dir(left).unwrap().count(), 0);
    }
}

/// A document that is replaced between the reading and the image reached neither the image nor who
/// updates living sandboxes: the sandbox was not yet to be seen. Between the two images it seemed
/// to have ended, and a sweep took what Kata keeps beside them.
#[test]
fn a_document_that_changes_meanwhile_is_read_again() {
    let node = node("");
    // Plugins are asked after the document was read: this one replaces it.
    let plugins = node.path("plugins");
    std::fs::create_dir(&plugins).unwrap();
    let replace = format!(
        "#!/bin/sh\n{sweep} sweep --run-root {run:?} >/dev/null 2>&1\n\
         printf '[registries.\"new.corp\"]\\nusername = \"u\"\\npassword = \"p\"\\n' \
         >{0}.new && chmod 600 {0}.new && mv {0}.new {0}\nexit 1\n",
        node.path("document.toml").display(),
        sweep = env!("CARGO_BIN_EXE_kata-configdev"),
        run = node.path("run"),
    );
    let sandbox = node.path("run/kata-containers/shared/initdata/0123");
    std::fs::create_dir_all(&sandbox).unwrap();
    let initdata = sandbox.join("data.img");
    std::fs::write(&initdata, "Kata's").unwrap();
    node.program("plugins/replace", "700", &replace);
    node.write(
        "listing.json",
        r#"{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":
        [{"name":"replace","matchImages":["*.corp"],"defaultCacheDuration":"0s",
        "apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}"#,
    );
    node.add_settings(&format!(
        "[credential-providers]\nconfig = {:?}\nbin-dir = {plugins:?}\nregistries = [\"x.corp\"]\n",
        node.path("listing.json")
    ));
    let waiting = start(&node);
    assert_eq!(std::fs::read_to_string(&initdata).unwrap(), "Kata's");
    let image = node.path("run/kata-containers/shared/initdata/0123/imagepuller.img");
    let image = std::fs::read(image).unwrap();
    let found = decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
    let text = String::from_utf8(found.document.to_vec()).unwrap();
    assert!(text.contains("new.corp"), "{text}");
    assert!(record::read(&node.path("run"), &id()).unwrap().unwrap().providers);
    waiting.finish();
}
