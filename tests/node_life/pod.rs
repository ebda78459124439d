//! A pod of the chart's DaemonSet on the node: a container with the image's programs, what the
//! kubelet mounts, and nothing else. It ends with its mounts.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use end_to_end::mount;
use rustix::process::{Pid, Signal, kill_process};
use vm_harness::process::{POLL, bound_command};
use vm_harness::{Background, Program, Scratch, process};

use crate::node_life::node::{HANDLERS, Node};

/// The chart's default prefix and directory of documents for the release `kata` in `kata-system`.
pub const PREFIX: &str = "opt/kata-configdev/kata-system.kata";
pub const DOCUMENTS: &str = "run/kata-configdev/kata-system.kata";

/// What a pod waits for at most; only a fault takes so long.
const LIMIT: Duration = Duration::from_secs(120);

/// The directories of the node that the kubelet makes where they are not there, and mounts.
const MADE: [&str; 5] = [
    "etc/kata-configdev",
    "opt/kata-configdev",
    "run/kata-configdev",
    DOCUMENTS,
    "run/kata-containers/shared/initdata",
];

/// A container that is not running: its root, and the command that starts it.
pub struct Pod<'n> {
    node: &'n Node,
    scratch: Scratch,
    root: PathBuf,
    /// Handlers that are not mounted.
    pub unmounted: Vec<&'static str>,
}

impl<'n> Pod<'n> {
    /// The pod of the release `owner` (`NAMESPACE/RELEASE`), with a configuration as the chart
    /// writes it for two handlers and a docker-config secret, with `prefix` and `documentDir` of
    /// the release `kata`.
    pub fn new(scratch: &Scratch, node: &'n Node, owner: &str) -> Result<Self> {
        let root = scratch.path().join(owner.replace('/', "."));
        let pod = Self { node, scratch: scratch.clone(), root, unmounted: Vec::new() };
        for directory in ["usr/local/bin", "config", "proc", "host"] {
            fs::create_dir_all(pod.root.join(directory))?;
        }
        for program in [Program::KataConfigdev, Program::KataConfigdevQemu] {
            let installed = pod.root.join("usr/local/bin").join(program.name());
            fs::copy(program.path()?, installed)?;
        }
        let path = |name: &str| node.path(name);
        let namespace = owner.split('/').next().unwrap_or_default();
        let configuration = format!(
            "host = \"/host\"\nowner = {owner:?}\nprefix = {:?}\ndocument-dir = {:?}\n\
             binaries = [{:?}]\nprogram = \"/usr/local/bin/kata-configdev\"\n\
             wrapper = \"/usr/local/bin/kata-configdev-qemu\"\nlisten = \"127.0.0.1:0\"\n\
             host-network = false\nsandboxes = true\nproviders = false\n[sets.default]\n\
             secret = \"/secrets/default\"\nkey = \"imagepuller.toml\"\nrequired = true\n\
             enabled = true\ndocker-configs = [\"/docker-configs/default/0\"]\n\
             allow-widening = false\nsettings-file = {:?}\nhandlers = {:?}\n\
             [sets.default.secret-names]\n\
             \"/secrets/default\" = \"{namespace}/kata-configdev-imagepuller\"\n\
             \"/docker-configs/default/0\" = \"{namespace}/team-registries\"\n\
             [sets.default.settings]\nrun-root = {:?}\n",
            path(PREFIX),
            path(DOCUMENTS),
            path("opt/kata/bin"),
            path(PREFIX).join("default/etc/kata-configdev/config.toml"),
            HANDLERS.map(path),
            path("run"),
        );
        fs::write(pod.root.join("config/installer.toml"), configuration)?;
        Ok(pod)
    }

    /// Where its files are, and its processes die.
    pub const fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Puts a file into a secret that is mounted.
    pub fn mount_secret(&self, path: &str, key: &str, text: &str) -> Result<()> {
        mount(&self.root.join(path.trim_start_matches('/')), key, text)
    }

    /// Takes a file out of a secret that is mounted.
    pub fn remove_secret(&self, path: &str, key: &str) -> Result<()> {
        let directory = self.root.join(path.trim_start_matches('/'));
        Ok(fs::remove_file(directory.join(key))?)
    }

    /// `kata-configdev` in the container. The kubelet's part is done when this returns.
    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let root = self.root.display();
        // Only what is mounted is there, as in a new container.
        let mut script = format!("set -e\nmount -t tmpfs host '{root}/host'\n");
        let mut bind = |name: &str, more: &str| -> Result<()> {
            let from = self.node.path(name);
            let to = self.root.join("host").join(from.strip_prefix("/")?);
            fs::create_dir_all(&from)?;
            let (from, to) = (from.display(), to.display());
            script.push_str(&format!("mkdir -p '{to}'\nmount --bind '{from}' '{to}'\n"));
            if !more.is_empty() {
                script.push_str(&format!("mount -o bind,remount,{more} '{to}'\n"));
            }
            Ok(())
        };
        for directory in MADE {
            bind(directory, "")?;
        }
        bind("opt/kata/bin", "ro")?;
        for handler in HANDLERS {
            if !self.unmounted.contains(&handler) {
                bind(handler, "")?;
            }
        }
        script.push_str(&format!(
            "mount --bind /proc '{root}/proc'\n\
             exec chroot '{root}' /usr/local/bin/kata-configdev \"$@\"\n"
        ));
        let mut command = bound_command("unshare");
        command
            .args(["--mount", "--propagation", "private", "--", "sh", "-c"])
            .args([&script, "pod"])
            .args(arguments)
            .args(["--config", "/config/installer.toml"]);
        Ok(command)
    }

    /// Runs `kata-configdev` in the container to its end: its exit code, and its log or its answer.
    pub fn run(&self, arguments: &[&str]) -> Result<(Option<i32>, String)> {
        let command = self.command(arguments)?;
        let rest: Vec<OsString> = command.get_args().map(Into::into).collect();
        // The command is bound already, and binding it twice changes nothing.
        let Output { status, stdout, stderr } =
            process::run(&self.scratch, command.get_program(), rest)?;
        let told = [stdout, stderr].concat();
        Ok((status.code(), String::from_utf8(told)?))
    }

    /// Starts the node agent, and waits as a startup probe does.
    pub fn start(&self) -> Result<Background> {
        let command = self.command(&["node-agent"])?;
        let agent = Background::spawn("agent", command, &self.scratch)?;
        let started = self.run(&["node-agent", "--probe", "started"])?;
        ensure!(started == (Some(0), "started\n".into()), "{started:?}");
        Ok(agent)
    }

    /// Why the node is not ready; nothing where it is.
    pub fn not_ready(&self) -> Result<Option<String>> {
        let (code, why) = self.run(&["node-agent", "--probe", "ready"])?;
        Ok((code != Some(0)).then_some(why))
    }

    /// Waits until the node is ready, or not ready for a reason with these words.
    pub fn wait_for(&self, words: Option<&str>) -> Result<()> {
        let start = Instant::now();
        loop {
            let said = self.not_ready()?;
            match (words, &said) {
                (None, None) => return Ok(()),
                (Some(words), Some(why)) if why.contains(words) => return Ok(()),
                _ => ensure!(start.elapsed() < LIMIT, "not {words:?}, but {said:?}"),
            }
            sleep(POLL);
        }
    }
}

/// Ends an agent as the kubelet does; gives its log.
pub fn stop(mut agent: Background) -> Result<String> {
    let pid = i32::try_from(agent.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process number"), Signal::TERM)?;
    let start = Instant::now();
    let status = loop {
        match agent.ended()? {
            Some(status) => break status,
            None => ensure!(start.elapsed() < LIMIT, "the agent does not end"),
        }
        sleep(POLL);
    };
    ensure!(status.success(), "the agent ended with {status}");
    Ok(agent.output())
}
