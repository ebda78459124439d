//! The configuration directory of one handler, read as Kata reads it.

use foreign_text::shown;
use rustix::fs::FileType;

use super::said::{Key, Said, Switch, is_wrapper_setting};
use super::{Finding, keys};
use crate::limits::MAX_KATA_FILE_BYTES;
use crate::node::{Directory, Node};
use crate::{Error, HostPath};

/// What Kata's runtimes do with a `config.d` that they cannot use.
const FAILS: &str = "Kata fails every sandbox of the handler";

/// A handler's directory. Its main files are all its `configuration*.toml`: which one containerd
/// names is not known here, and they share `config.d`.
pub(super) struct Handler {
    pub(super) path: HostPath,
    pub(super) mains: Vec<File>,
    /// In the order in which later ones win.
    pub(super) drop_ins: Vec<File>,
    /// Whether all that Kata reads was read.
    pub(super) is_whole: bool,
    findings: Vec<Finding>,
}

pub(super) struct File {
    /// Safe to show.
    pub(super) path: String,
    name: String,
    pub(super) said: Said,
    /// Whether the installer wrote it, whatever somebody changed since.
    pub(super) is_ours: bool,
}

/// Which of Kata's runtimes has the handler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    Go,
    Rust,
    Unknown,
}

impl Handler {
    /// Reads the directory `path`; `None` where it is not seen from here. `is_ours` says which
    /// files the installer wrote; those that name `wrapper` count as such too.
    pub(super) fn read(
        node: &Node,
        path: &HostPath,
        is_ours: &dyn Fn(&HostPath) -> bool,
        wrapper: &HostPath,
    ) -> Result<Option<Self>, Error> {
        let Some(directory) = node.directory(path)? else {
            return Ok(None);
        };
        let mut handler = Self {
            path: path.clone(),
            mains: Vec::new(),
            drop_ins: Vec::new(),
            is_whole: true,
            findings: Vec::new(),
        };
        for (name, kind) in directory.entries()? {
            let is_main = name.starts_with("configuration") && name.ends_with(".toml");
            // A link is another name of a file here, or leads to one with another `config.d`.
            if is_main && kind == FileType::RegularFile {
                let main = handler.file(&directory, path, name);
                handler.mains.extend(main);
            }
        }
        let path = path.join("config.d");
        if let Some(directory) = node.directory(&path)? {
            for (name, kind) in directory.entries()? {
                let is_ours = is_ours(&path.join(&name));
                let drop_in = handler.drop_in(&directory, &path, name, kind);
                let drop_in =
                    drop_in.map(|file| File { is_ours: is_ours || file.is_to(wrapper), ..file });
                handler.drop_ins.extend(drop_in);
            }
        }
        Ok(Some(handler))
    }

    /// Whether Kata has all images pulled in the guest, whichever main file is used.
    pub(super) fn forces_guest_pull(&self) -> bool {
        let forces = |main: &File| self.guest_pull_of(main).is_some();
        self.is_whole && !self.mains.is_empty() && self.mains.iter().all(forces)
    }

    /// Where Kata is told to have all images pulled in the guest, if it is.
    pub(super) fn guest_pull_of<'a>(&'a self, main: &'a File) -> Option<(&'a File, usize)> {
        let switch = match self.runtime_of(main) {
            Runtime::Rust => Switch::RustGuestPull,
            Runtime::Go | Runtime::Unknown => Switch::GoGuestPull,
        };
        self.on(main, switch)
    }

    /// What is known of files that cannot be read.
    pub(super) fn unread_files(self) -> Vec<Finding> {
        self.findings
    }

    /// What the administrator should know where Kata is pointed to `wrapper` by the drop-in `ours`;
    /// `""` stands for the main file.
    pub(super) fn findings(mut self, ours: &str, wrapper: &HostPath) -> Vec<Finding> {
        let mut findings = std::mem::take(&mut self.findings);
        let runtime = self.runtime();
        for file in &self.drop_ins {
            findings.extend(file.foreign(runtime));
            findings.extend(self.unknown(file));
            findings.extend(file.later_path(ours, wrapper));
        }
        for main in &self.mains {
            for finding in self.factories(main) {
                // Several main files may share the drop-in that says so.
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
        }
        findings
    }

    fn drop_in(
        &mut self,
        directory: &Directory,
        above: &HostPath,
        name: String,
        kind: FileType,
    ) -> Option<File> {
        let path = || shown_path(above, &name);
        match kind {
            FileType::RegularFile => {}
            FileType::Symlink => {
                let message = "a symbolic link: the Go runtime reads what is behind it, runtime-rs \
                    fails every sandbox; put a regular file there";
                let is_fault = self.runtime() == Runtime::Rust;
                return self.unread("drop-in-link", path(), 0, is_fault, message.to_owned());
            }
            _ => {
                let message = format!("not a regular file: {FAILS}; move it elsewhere");
                return self.unread("drop-in-no-file", path(), 0, true, message);
            }
        }
        if name.starts_with('.') || !name.ends_with(".toml") {
            let message = "Kata reads every file of config.d whatever its name is; move it \
                elsewhere unless it is meant";
            let finding = finding("drop-in-name", path(), 0, true, message.to_owned());
            self.findings.push(finding);
        }
        self.file(directory, above, name)
    }

    /// Reads a file; `None`, and a finding, where that fails.
    fn file(&mut self, directory: &Directory, above: &HostPath, name: String) -> Option<File> {
        let path = shown_path(above, &name);
        let text = match directory.read(&name, MAX_KATA_FILE_BYTES) {
            Ok(Some(text)) => text,
            // Removed since it was listed.
            Ok(None) => return None,
            Err(error) => {
                let message = format!("it is not looked at: {error}");
                return self.unread("kata-file-unread", path, 0, false, message);
            }
        };
        match Said::parse(&text) {
            Ok(said) => Some(File { path, name, said, is_ours: false }),
            Err(error) => {
                let message = format!("no TOML ({}): {FAILS}; correct or remove it", error.message);
                self.unread("kata-file-no-toml", path, error.line, true, message)
            }
        }
    }

    fn unread<T>(
        &mut self,
        id: &'static str,
        path: String,
        line: usize,
        is_fault: bool,
        message: String,
    ) -> Option<T> {
        self.is_whole = false;
        self.findings.push(finding(id, path, line, is_fault, message));
        None
    }

    fn runtime(&self) -> Runtime {
        let mut runtimes = self.mains.iter().map(|main| self.runtime_of(main));
        let first = runtimes.next().unwrap_or(Runtime::Unknown);
        match runtimes.all(|runtime| runtime == first) {
            true => first,
            false => Runtime::Unknown,
        }
    }

    pub(super) fn runtime_of(&self, main: &File) -> Runtime {
        let is_rust = self.in_order(main).any(|file| file.said.hypervisor_name.is_some());
        if is_rust { Runtime::Rust } else { Runtime::Go }
    }

    /// The files that make the configuration of `main`, later ones winning.
    pub(super) fn in_order<'a>(&'a self, main: &'a File) -> impl Iterator<Item = &'a File> {
        std::iter::once(main).chain(&self.drop_ins)
    }

    /// Where `switch` is turned on, if it is.
    fn on<'a>(&'a self, main: &'a File, switch: Switch) -> Option<(&'a File, usize)> {
        let said = self.in_order(main).flat_map(|file| {
            let switches = file.said.switches.iter();
            switches.map(move |(switch, line, is_on)| (*switch, file, *line, *is_on))
        });
        let last = said.filter(|said| said.0 == switch).last();
        last.and_then(|(_, file, line, is_on)| is_on.then_some((file, line)))
    }

    /// The keys of a drop-in that no main file mentions, and that [a version](keys) of Kata does
    /// not know. Only a doubt: another version may know more keys.
    fn unknown(&self, file: &File) -> impl Iterator<Item = Finding> {
        let is_go = self.runtime() == Runtime::Go && !self.mains.is_empty();
        let is_known = |key: &Key| {
            let mut mains = self.mains.iter();
            keys::is_known(key.kind, &key.name)
                || mains.any(|main| main.said.mentioned.contains(&key.name))
        };
        let keys = file.said.keys.iter();
        let keys =
            keys.filter(move |key| is_go && !is_wrapper_setting(&key.name) && !is_known(key));
        keys.map(|key| {
            let message = format!(
                "Kata {} has no key {}, and the main file here does not mention it: the Go runtime \
                fails every sandbox for a key that it does not know; correct it, or see that the \
                documentation of your version has it",
                keys::VERSION,
                key.path
            );
            let id = "drop-in-unknown-key";
            finding(id, file.path.clone(), key.line, false, message)
        })
    }

    fn factories(&self, main: &File) -> Vec<Finding> {
        let switches: &[_] = match self.runtime_of(main) {
            Runtime::Rust => &[(Switch::RustTemplate, "VM templating is")],
            Runtime::Go | Runtime::Unknown => {
                &[(Switch::GoTemplate, "VM templating is"), (Switch::GoCache, "the VM cache is")]
            }
        };
        let on = |(switch, what): &(Switch, &str)| {
            let (file, line) = self.on(main, *switch)?;
            let message = format!(
                "{what} on: such VMs get no document, and the wrapper refuses those for sandboxes \
                that should have one; turn it off for this handler"
            );
            let id = "vm-factory";
            Some(finding(id, file.path.clone(), line, true, message))
        };
        switches.iter().filter_map(on).collect()
    }
}

impl File {
    /// Its name in its directory, as it is.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The tables below `[hypervisor]`, but for what the installer wrote.
    pub(super) fn hypervisors(&self) -> impl Iterator<Item = &(usize, String)> {
        let tables = self.said.hypervisors.iter();
        tables.filter(|_| !self.is_ours)
    }

    /// Whether it points Kata to `wrapper`.
    fn is_to(&self, wrapper: &HostPath) -> bool {
        let path = self.said.qemu_path.as_ref();
        path.is_some_and(|(_, path)| path == wrapper.as_str())
    }

    /// The wrapper's settings where only Kata's keys belong.
    fn foreign(&self, runtime: Runtime) -> impl Iterator<Item = Finding> {
        let keys = self.said.keys.iter();
        let settings = keys.filter(|key| is_wrapper_setting(&key.name));
        settings.map(move |key| {
            let effect = match runtime {
                Runtime::Go => "the Go runtime fails every sandbox",
                Runtime::Rust => "it has no effect",
                Runtime::Unknown => "the Go runtime fails every sandbox, runtime-rs ignores it",
            };
            let message = format!(
                "{} is no key of Kata but a setting of the wrapper, and so {effect}; move it to \
                the wrapper's settings",
                key.path
            );
            let is_fault = runtime == Runtime::Go;
            let id = "drop-in-wrapper-setting";
            finding(id, self.path.clone(), key.line, is_fault, message)
        })
    }

    /// A `path` that wins over the one to the wrapper, which stands in the drop-in `ours`.
    fn later_path(&self, ours: &str, wrapper: &HostPath) -> Option<Finding> {
        let (line, path) = self.said.qemu_path.as_ref()?;
        let wins = self.name.as_str() > ours && path != wrapper.as_str();
        let message = || {
            let ours = match ours {
                "" => "the main file".into(),
                name => shown(name).to_string(),
            };
            format!(
                "hypervisor.qemu.path is read after {ours} and wins, so that sandboxes start \
                without the wrapper; remove it, and name that QEMU as qemu in the wrapper's \
                settings"
            )
        };
        wins.then(|| {
            let id = "drop-in-overrides";
            finding(id, self.path.clone(), *line, true, message())
        })
    }
}

pub(super) fn finding(
    id: &'static str,
    path: String,
    line: usize,
    is_fault: bool,
    message: String,
) -> Finding {
    Finding { id, path, line, is_fault, message }
}

/// The name is somebody else's.
fn shown_path(above: &HostPath, name: &str) -> String {
    format!("{above}/{}", shown(name))
}
