//! The node agent on a node of its own: a secret that the kubelet mounts, the wrapper that the
//! agent installed, and sandboxes whose QEMU waits.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use config_image::{Magic, decode};
use tempfile::TempDir;
use test_command::wait_until;

use crate::installer::machine::{PASSWORD, broken, document, mount};
use crate::installer::process::get;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_kata-configdev");
const WAITS: &str = "the secret kata/registries has not arrived on this node";

/// A node, as a directory whose paths are what they are: the agent runs on it and in no container.
pub struct Node {
    directory: TempDir,
    generation: u32,
    /// What is installed as the wrapper.
    pub wrapper: PathBuf,
    /// The line about the program for people.
    program: String,
    /// More lines at the top of the configuration.
    pub more: String,
    /// The set's switch.
    pub enabled: bool,
    /// The QEMU in the set's settings.
    pub qemu: String,
    /// More of the set's settings.
    pub settings: String,
}

impl Node {
    pub fn new() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    pub fn new_in(place: &Path) -> Self {
        let directory = tempfile::tempdir_in(place).unwrap();
        let node = Self {
            enabled: true,
            qemu: directory.path().join("qemu").display().to_string(),
            directory,
            generation: 0,
            wrapper: env!("CARGO_BIN_EXE_kata-configdev-qemu").into(),
            program: format!("program = {PROGRAM:?}\n"),
            more: String::new(),
            settings: String::new(),
        };
        for name in ["kata/qemu-snp", "run", "bundle"] {
            fs::create_dir_all(node.path(name)).unwrap();
        }
        let qemu = node.path("qemu");
        let kata = format!("[hypervisor.qemu]\npath = {qemu:?}\n");
        fs::write(node.path("kata/qemu-snp/configuration.toml"), kata).unwrap();
        fs::write(node.path("bundle/config.json"), r#"{"ociVersion":"1.1.0"}"#).unwrap();
        // A child of a test beside this one may have what is open for writing.
        let script = "#!/bin/sh\necho ready\nread line\n";
        let written = Command::new("/bin/sh")
            .args(["-c", "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\""])
            .arg(&qemu)
            .arg(script)
            .status();
        assert!(written.unwrap().success());
        node
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Installs no program for people beside the wrapper.
    pub fn without_program(&mut self) {
        self.program.clear();
    }

    pub fn mount(&mut self, keys: &[(&str, &str)]) {
        mount(&self.path("secret"), &mut self.generation, keys);
    }

    pub fn mount_document(&mut self, text: &str) {
        self.mount(&[("imagepuller.toml", text)]);
    }

    pub fn configuration(&self) -> PathBuf {
        let path = self.path("agent.toml");
        let prefix = self.path("prefix");
        let secret = self.path("secret");
        let text = format!(
            "host = \"/\"\nprefix = {prefix:?}\nwrapper = {:?}\n\
             sandboxes = true\nlisten = \"127.0.0.1:0\"\nmetrics-port = 0\n{}{}[sets.default]\n\
             enabled = {}\nsecret = {secret:?}\nrequired = true\n\
             secret-names = {{ {secret:?} = \"kata/registries\" }}\nhandlers = [{:?}]\n\
             settings-file = \"{}/default/etc/kata-configdev/config.toml\"\n\
             [sets.default.settings]\nqemu = {:?}\nrun-root = {:?}\n{}",
            self.wrapper,
            self.program,
            self.more,
            self.enabled,
            self.path("kata/qemu-snp"),
            prefix.display(),
            self.qemu,
            self.path("run"),
            self.settings,
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// The answer of a probe, and whether it is yes.
    pub fn probe(&self, question: &str) -> (bool, String) {
        let output = Command::new(PROGRAM)
            .args(["node-agent", "--probe", question, "--config"])
            .arg(self.configuration())
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.stderr, b"", "{told}");
        (output.status.success(), told)
    }

    /// What the sandbox's disk holds; `None` where it has none, or one that a guest refuses.
    pub fn disk(&self, id: &str) -> Option<String> {
        let place = format!("run/kata-containers/shared/initdata/{id}/imagepuller.img");
        let image = fs::read(self.path(&place)).ok()?;
        let found = decode(image.as_slice(), Magic::IMAGEPULLER).ok()?;
        String::from_utf8(found.document.to_vec()).ok()
    }
}

/// `node-agent`, killed when this is dropped.
pub struct Agent {
    pub process: Child,
    log: PathBuf,
}

impl Agent {
    pub fn start(node: &Node) -> Self {
        let log = node.path("log");
        let process = Command::new(PROGRAM)
            .args(["node-agent", "--config"])
            .arg(node.configuration())
            .env("OF_AGENT", "yes")
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { process, log }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub fn address(&self, what: &str) -> SocketAddr {
        let log = self.log();
        let (_, said) = log.split_once(&format!("answering {what} on ")).unwrap();
        said.lines().next().unwrap().parse().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A sandbox, started as Kata starts one; its QEMU ends when this is dropped.
pub struct Sandbox(Child);

impl Sandbox {
    pub fn start(node: &Node, id: &str) -> Self {
        let mut child = Command::new(node.path("prefix/default/bin/kata-configdev-qemu"))
            .args(["-name", &format!("sandbox-{id}"), "-machine", "q35"])
            .current_dir(node.path("bundle"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        Self(child)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Before, rotation into running sandboxes was work for somebody's hands, with a program that was
/// not on the node, and what they left in `/run` stayed.
#[test]
fn a_node_is_looked_after_from_the_first_sandbox_to_the_last() {
    let mut node = Node::new();
    let agent = Agent::start(&node);
    assert_eq!(node.probe("started"), (true, "started\n".into()));
    let (ready, why) = node.probe("ready");
    assert!(!ready && why.contains(WAITS), "{why}");
    // Everybody who reaches the node can ask this.
    let answer = get(agent.address("health checks"), "/readyz");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(!answer.contains("kata/registries"), "{answer}");

    // The sandbox is older than the secret.
    let old = Sandbox::start(&node, "old");
    let refusal = format!("node-error = {WAITS:?}\n");
    assert_eq!(node.disk("old").as_deref(), Some(refusal.as_str()));
    // The secret comes, its password is corrected, it is deleted and comes back.
    for name in ["one", "two"] {
        node.mount_document(&document(name));
        wait_until(name, || node.disk("old") == Some(document(name)));
    }
    wait_until("readiness", || node.probe("ready").0);
    node.mount(&[]);
    wait_until("the deletion", || node.disk("old").as_deref() == Some(&refusal));
    let young = Sandbox::start(&node, "young");
    node.mount_document(&document("three"));
    wait_until("the return", || {
        ["old", "young"].map(|id| node.disk(id)) == [(); 2].map(|()| Some(document("three")))
    });
    // One that is not valid takes nothing away.
    node.mount_document(&broken());
    wait_until("the problem", || !node.probe("ready").0);
    assert_eq!(node.disk("old"), Some(document("three")));

    let metrics = get(agent.address("/metrics"), "/metrics");
    for line in [
        "kata_configdev_ready 0\n",
        "kata_configdev_set{set=\"default\",document=\"document\"} 1\n",
        "kata_configdev_sandboxes{set=\"default\",document=\"current\"} 2\n",
        "kata_configdev_sandbox_updates_total 5\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }

    // What a sandbox leaves goes with the next pass, and the other one stays.
    drop(old);
    node.mount_document(&document("four"));
    let place = node.path("run/kata-containers/shared/initdata");
    wait_until("the sweep", || fs::read_dir(&place).unwrap().count() == 1);
    assert_eq!(node.disk("young"), Some(document("four")));
    drop(young);

    // The program for people is there, and finds the settings of its set.
    let program = node.path("prefix/default/bin/kata-configdev");
    let shown = Command::new(&program).arg("config").output().unwrap();
    let settings = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success(), "{settings}");
    assert!(settings.contains("\ntransport = \"file\" "), "{settings}");
    let log = agent.log();
    assert!(!log.contains(PASSWORD) && !metrics.contains(PASSWORD), "{log}");
}

/// Documents in memory are gone after a restart of the node, and pods start before the agent.
#[test]
fn after_a_reboot_nothing_is_pulled_until_the_agent_has_run() {
    let mut node = Node::new();
    node.mount_document(&document("one"));
    let agent = Agent::start(&node);
    wait_until("readiness", || node.probe("ready").0);
    drop(agent);
    let (ready, why) = node.probe("ready");
    assert!(!ready && why.starts_with("nobody answers"), "{why}");
    fs::remove_dir_all(node.path("prefix/default/etc/host-config")).unwrap();
    let _sandbox = Sandbox::start(&node, "early");
    let refusal = format!("node-error = {WAITS:?}\n");
    assert_eq!(node.disk("early").as_deref(), Some(refusal.as_str()));
    let _agent = Agent::start(&node);
    wait_until("the update", || node.disk("early") == Some(document("one")));
}

#[test]
fn refusals_are_counted_by_cause() {
    let mut node = Node::new();
    node.mount_document(&document("one"));
    let agent = Agent::start(&node);
    wait_until("readiness", || node.probe("ready").0);
    let metrics = get(agent.address("/metrics"), "/metrics");
    let line = "kata_configdev_refused_sandboxes{cause=\"machine\"} 0\n";
    assert!(metrics.contains(line), "{metrics}");
    for (name, machine) in [("sandbox-x", "isapc"), ("sandbox-y", "none")] {
        let refused = Command::new(node.path("prefix/default/bin/kata-configdev-qemu"))
            .args(["-name", name, "-machine", machine])
            .current_dir(node.path("bundle"))
            .stderr(Stdio::null())
            .status();
        assert_eq!(refused.unwrap().code(), Some(65));
    }
    // The next pass sees them.
    node.mount_document(&document("two"));
    let line = "kata_configdev_refused_sandboxes{cause=\"machine\"} 2\n";
    let address = agent.address("/metrics");
    wait_until("the count", || get(address, "/metrics").contains(line));
}

/// A disk that has no room for the document does not keep the others, and is told.
#[test]
fn a_document_that_does_not_fit_is_told_and_the_rest_goes_on() {
    let mut node = Node::new();
    node.mount_document(&document("one"));
    let agent = Agent::start(&node);
    wait_until("readiness", || node.probe("ready").0);
    let _sandbox = Sandbox::start(&node, "tight");
    let long = format!("{}# {}\n", document("two"), "x".repeat(70_000));
    node.mount_document(&long);
    wait_until("the warning", || {
        agent.log().contains("sandbox tight: failed to update the sandbox's configuration")
    });
    assert_eq!(node.disk("tight"), Some(document("one")));
    assert!(node.probe("ready").0, "{}", agent.log());
    node.mount_document(&document("three"));
    wait_until("the update", || node.disk("tight") == Some(document("three")));
    let mode = fs::metadata(node.path("prefix/default/etc/host-config")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o7777, 0o700);
}
