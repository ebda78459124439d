//! Which QEMU the sandboxes of a handler would start without the wrapper.

use foreign_text::shown;

use super::Finding;
use super::handler::{File, Handler, Runtime, finding};
use crate::HostPath;
use crate::kind::WRAPPER;

/// What Kata starts for a handler.
#[derive(Debug)]
pub(super) enum Start {
    /// This QEMU, as this file says in this line.
    Qemu(HostPath, String),
    /// A QEMU that no file names; with what to tell where somebody has to know it.
    Unnamed(Finding),
    /// Nobody knows, which is told.
    Unknown,
    /// Another installation's wrapper, which is told.
    Taken,
    /// Another hypervisor, which is told.
    Other,
}

/// Whether `path` is a wrapper of this project, whoever installed it.
pub(super) fn is_wrapper(path: &str) -> bool {
    path.rsplit('/').next() == Some(WRAPPER)
}

impl Handler {
    /// What Kata starts, whichever main file is used, and what is wrong with it.
    pub(super) fn start(&self) -> (Start, Vec<Finding>) {
        let mut findings = self.wrappers_of_others();
        if !findings.is_empty() {
            return (Start::Taken, findings);
        }
        if self.mains.is_empty() {
            let message = if self.is_whole {
                "no configuration*.toml is in it, so that no handler of Kata has this directory; \
                name the one that containerd's ConfigPath lies in"
            } else {
                "no configuration*.toml in it can be read, so that its QEMU is not known; correct \
                that, or name that QEMU as qemu in the set's settings"
            };
            let finding = finding("handler-empty", self.path.to_string(), 0, true, message.into());
            if !self.is_whole {
                return (Start::Unnamed(finding), findings);
            }
            findings.push(finding);
            return (Start::Unknown, findings);
        }
        let (wrong, starting) = self.hypervisors();
        findings.extend(wrong);
        let starts = starting.into_iter().map(|main| self.qemu_of(main));
        (one_of(starts.collect()), findings)
    }

    /// What is wrong with the hypervisors of the main files, and those that start QEMU.
    pub(super) fn hypervisors(&self) -> (Vec<Finding>, Vec<&File>) {
        let mut findings = Vec::new();
        let mut starting = Vec::new();
        let mut others = Vec::new();
        for main in &self.mains {
            match self.other_hypervisor(main) {
                Some(other) => others.push(other),
                None => {
                    findings.extend(self.second_hypervisor(main));
                    starting.push(main);
                }
            }
        }
        // Where another main file starts QEMU, this one need not be used.
        for other in &mut others {
            other.is_fault = starting.is_empty();
        }
        findings.extend(others);
        (findings, starting)
    }

    /// Drop-ins and main files that name the wrapper of another installation.
    fn wrappers_of_others(&self) -> Vec<Finding> {
        let files = self.mains.iter().chain(&self.drop_ins);
        let others = files.filter(|file| !file.is_ours).filter_map(|file| {
            let (line, path) = file.said.qemu_path.as_ref()?;
            let message = format!(
                "hypervisor.qemu.path is {}, the wrapper of another installation; remove that one \
                first, or take the handler off this set",
                shown(path)
            );
            is_wrapper(path)
                .then(|| finding("wrapper-other", file.path.clone(), *line, true, message))
        });
        others.collect()
    }

    /// Why sandboxes of `main` start no QEMU, if so.
    pub(super) fn other_hypervisor(&self, main: &File) -> Option<Finding> {
        const REMEDY: &str = "so that its sandboxes start no QEMU; take the handler off the set";
        let names = self.in_order(main).filter_map(|file| {
            let (line, name) = file.said.hypervisor_name.as_ref()?;
            Some((file, *line, name))
        });
        if let Some((file, line, name)) = names.last()
            && name != "qemu"
        {
            let message = format!("runtime.hypervisor_name is {}, {REMEDY}", shown(name));
            return Some(finding("hypervisor-other", file.path.clone(), line, true, message));
        }
        let mut tables = self.in_order(main).flat_map(File::hypervisors);
        if tables.any(|(_, name)| name == "qemu") {
            return None;
        }
        let message = format!("[hypervisor.qemu] is neither here nor in config.d, {REMEDY}");
        Some(finding("hypervisor-none", main.path.clone(), 0, true, message))
    }

    /// A further hypervisor of `main`: the Go runtime walks the tables in a random order.
    pub(super) fn second_hypervisor(&self, main: &File) -> Option<Finding> {
        if self.runtime_of(main) == Runtime::Rust {
            return None;
        }
        let mut files = self.in_order(main);
        files.find_map(|file| {
            let (line, name) = file.hypervisors().find(|(_, name)| name != "qemu")?;
            let message = format!(
                "[hypervisor.{}] is beside [hypervisor.qemu], and the Go runtime takes one of them \
                by chance; leave one",
                shown(name)
            );
            let id = "hypervisor-second";
            Some(finding(id, file.path.clone(), *line, true, message))
        })
    }

    fn qemu_of(&self, main: &File) -> Start {
        let said = self.in_order(main).filter_map(|file| {
            let (line, path) = file.said.qemu_path.as_ref()?;
            // The one to the wrapper is what this is asked without.
            (!is_wrapper(path)).then_some((file, *line, path))
        });
        let Some((file, line, path)) = said.last() else {
            return Start::Unnamed(finding(
                "qemu-unnamed",
                main.path.clone(),
                0,
                true,
                "hypervisor.qemu.path is neither here nor in config.d; name that QEMU as qemu in \
                the set's settings"
                    .into(),
            ));
        };
        let place = format!("{}:{line}", file.path);
        match HostPath::parse(path) {
            Ok(path) => Start::Qemu(path, place),
            Err(rule) => {
                let message = format!("hypervisor.qemu.path: {rule}");
                let id = "qemu-unnamed";
                Start::Unnamed(finding(id, file.path.clone(), line, true, message))
            }
        }
    }
}

/// What all `starts` say.
fn one_of(starts: Vec<Start>) -> Start {
    let mut starts = starts.into_iter();
    let Some(mut one) = starts.next() else {
        return Start::Other;
    };
    for next in starts {
        match (&one, &next) {
            (Start::Qemu(path, place), Start::Qemu(other, other_place)) if path != other => {
                let message = format!(
                    "hypervisor.qemu.path is {other}, and {path} at {place}: nobody knows which \
                    of the main files is used; name one as qemu in the set's settings"
                );
                let finding = finding("qemu-several", other_place.clone(), 0, true, message);
                return Start::Unnamed(finding);
            }
            (Start::Qemu(..), _) => {}
            _ => one = next,
        }
    }
    one
}
