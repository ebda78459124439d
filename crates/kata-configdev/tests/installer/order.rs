//! The wrapper and its settings on the way up and down. A sandbox may start between any two writes:
//! a pass is stopped behind each of them, where it logs it, and a sandbox is started.

use std::fmt::Debug;
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};

use foreign_text::hex;
use node_installer::{Options, Outcome, install};
use sha2::{Digest, Sha256};
use test_command::{alone, skipped_without_root};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::installer::machine::{MANIFEST, Machine, SETTINGS, WRAPPER, document, parse};

/// The wrapper of this version.
const OURS: &str = env!("CARGO_BIN_EXE_kata-configdev-qemu");

/// What stands for the wrapper of a later version: it knows one key more.
const LATER: &str = "#!/bin/busybox sh
/bin/busybox grep -v '^later-key' /etc/kata-configdev/config.toml >/run/known.toml
export KATA_CONFIGDEV_CONFIG=/run/known.toml
exec /run/kata-configdev-qemu \"$@\"
";

const QEMU: &str = "#!/bin/busybox sh\necho \"$@\"\n";

/// A node where sandboxes can be started as Kata does, below a root of its own.
struct Node(Machine);

impl Node {
    fn new() -> Self {
        let mut machine = Machine::new();
        machine.mount_document(&document("one"));
        let ours = fs::read(OURS).unwrap();
        for (name, program) in [
            ("bin/busybox", fs::read("/bin/busybox").unwrap()),
            ("run/kata-configdev-qemu", ours.clone()),
            ("opt/kata/bin/qemu", QEMU.into()),
        ] {
            machine.program(name);
            fs::write(machine.host(name), program).unwrap();
        }
        fs::create_dir(machine.host("proc")).unwrap();
        let node = Self(machine);
        node.bring(&ours);
        node
    }

    /// Gives the installer this wrapper.
    fn bring(&self, wrapper: &[u8]) {
        fs::write(self.0.path("wrapper"), wrapper).unwrap();
    }

    /// The configuration; `more` stands in the wrapper's settings.
    fn options(&self, more: &str) -> Options {
        let text = format!(
            "{}[sets.default]\nsecret = {:?}\nhandlers = [\"/opt/kata/qemu-snp\"]\n\
             settings = {{ qemu = \"/opt/kata/bin/qemu\"{more} }}\n",
            self.0.head(),
            self.0.path("secret")
        );
        parse(&text).unwrap()
    }

    /// Starts a sandbox, which has to get its document.
    fn start(&self) -> Result<(), String> {
        let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command.arg(self.0.path("host")).arg(format!("/{WRAPPER}"));
        command.args(["-name", "sandbox-1", "-machine", "q35"]);
        command.args(["-device", "pcie-pci-bridge,id=pci-bridge-0"]);
        let ended = command.output().unwrap();
        let arguments = String::from_utf8_lossy(&ended.stdout).into_owned();
        match ended.status.success() && arguments.contains("serial=imagepuller") {
            true => Ok(()),
            false => Err(arguments + &String::from_utf8_lossy(&ended.stderr)),
        }
    }

    /// Makes the node that of a later version: its wrapper, and settings with its key.
    fn become_later(&self) {
        self.bring(LATER.as_bytes());
        assert_eq!(install(&self.options("")).unwrap().exit_code(), 0);
        let settings = self.0.read(SETTINGS);
        let later = format!("later-key = true\n{settings}");
        let digest = |text: &str| hex::encode(&Sha256::digest(text));
        let list = self.0.read(MANIFEST);
        let list = list.replace(&digest(&settings), &digest(&later));
        fs::write(self.0.host(MANIFEST), list).unwrap();
        fs::write(self.0.host(SETTINGS), later).unwrap();
        self.start().unwrap();
    }
}

/// Starts a sandbox at each line of a log.
struct Stops {
    node: Arc<Node>,
    writes: Arc<Mutex<Vec<String>>>,
}

impl Subscriber for Stops {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut writes = self.writes.lock().unwrap();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                writes.push(format!("{value:?}"));
            }
        });
        let started = self.node.start();
        started.unwrap_or_else(|error| panic!("after {writes:?}: {error}"));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A pass that is stopped behind each write. Gives what was written, in order.
fn stopped_at_each_write(node: &Arc<Node>, options: &Options) -> (Outcome, Vec<String>) {
    let (node, writes) = (Arc::clone(node), Arc::default());
    let stops = Stops { node, writes: Arc::clone(&writes) };
    let outcome = tracing::subscriber::with_default(stops, || install(options).unwrap());
    let writes = writes.lock().unwrap().clone();
    (outcome, writes)
}

/// Runs a test with a node, in a process of its own: the lines that it counts are missed where a
/// neighbour without a subscriber reaches them first.
fn with_node(name: &str, test: impl FnOnce(Arc<Node>)) {
    if !skipped_without_root("a root of its own") {
        alone(&format!("installer::order::{name}"), || test(Arc::new(Node::new())));
    }
}

/// The older wrapper once came first, and failed each sandbox by the newer settings.
#[test]
fn privileged_on_the_way_down_the_settings_are_written_before_the_wrapper() {
    let name = "privileged_on_the_way_down_the_settings_are_written_before_the_wrapper";
    with_node(name, |node| {
        node.become_later();
        node.bring(&fs::read(OURS).unwrap());
        let (outcome, writes) = stopped_at_each_write(&node, &node.options(""));
        assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
        assert_eq!(writes, ["replaced the settings", "replaced the wrapper"]);
        assert_eq!(install(&node.options("")).unwrap().changes, 0);
    });
}

#[test]
fn privileged_on_the_way_up_the_wrapper_is_written_before_the_settings() {
    let name = "privileged_on_the_way_up_the_wrapper_is_written_before_the_settings";
    with_node(name, |node| {
        assert_eq!(install(&node.options("")).unwrap().exit_code(), 0);
        node.bring(LATER.as_bytes());
        let options = node.options(", guest-pull = true");
        let (outcome, writes) = stopped_at_each_write(&node, &options);
        assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
        assert_eq!(writes, ["replaced the wrapper", "replaced the settings"]);
    });
}

/// Somebody's drop-in has the key. With this version's wrapper every sandbox would fail, and with
/// the one that is there none does.
#[test]
fn privileged_a_wrapper_stays_that_alone_understands_the_settings() {
    let name = "privileged_a_wrapper_stays_that_alone_understands_the_settings";
    with_node(name, |node| {
        node.become_later();
        let drop_in = node.0.host("etc/kata-configdev/config.d/50-mine.toml");
        fs::create_dir_all(drop_in.parent().unwrap()).unwrap();
        fs::write(&drop_in, "later-key = true\n").unwrap();
        node.bring(&fs::read(OURS).unwrap());
        let outcome = install(&node.options("")).unwrap();
        assert_ne!(outcome.exit_code(), 0);
        let told = "the wrapper of the set default stays as it is";
        assert!(outcome.warnings.join("\n").contains(told), "{outcome:?}");
        assert_eq!(node.0.read(WRAPPER), LATER);

        fs::remove_file(drop_in).unwrap();
        let (outcome, writes) = stopped_at_each_write(&node, &node.options(""));
        assert_eq!(
            (outcome.exit_code(), &writes[..]),
            (0, &["replaced the wrapper".to_owned()][..])
        );
    });
}
