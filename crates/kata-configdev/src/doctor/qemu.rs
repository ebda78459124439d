//! The QEMU that the wrapper becomes.

use std::io;
use std::path::{Path, PathBuf};

use foreign_text::shown;
use node_installer::{HostPath, Program};
use rustix::io::Errno;

use super::finding::{Finding, Severity};
use super::node::is_denied;
use super::set::Set;
use super::settings::{of_sandboxes, place};
use crate::node_root::NodeRoot;
use crate::settings::Effective;
use crate::{SandboxError, wrapper};

/// Whether every QEMU of the settings is there, can be executed, and is not the wrapper.
pub fn check(node: &NodeRoot, set: &Set<'_>, findings: &mut Vec<Finding>) {
    let Some(effective) = &set.effective else {
        return;
    };
    let qemu = &effective.settings.qemu;
    let by_machine = qemu.by_machine.iter();
    let binaries = by_machine.map(|(machine, path)| (machine.as_str(), path.as_path()));
    for (machine, path) in [("default", qemu.default.as_path())].into_iter().chain(binaries) {
        if let Err((id, error)) = program(node, path) {
            let (file, line) = place(set, effective.origins.of(&format!("qemu.{machine}")));
            findings.push(of_sandboxes(id, Severity::Fault, file, &error).at_line(line));
        }
    }
    findings.extend(differs(node, set, effective));
}

/// Where the settings name another QEMU than Kata's own configuration, which knows the one for the
/// handler.
fn differs(node: &NodeRoot, set: &Set<'_>, effective: &Effective) -> Option<Finding> {
    let qemu = &effective.settings.qemu;
    let mut mains = set.handlers.iter().flat_map(|handler| &handler.standing.mains);
    let real = |path: &Path| node.real(path).unwrap_or_else(|_| path.to_owned());
    let named: Vec<PathBuf> = [&qemu.default]
        .into_iter()
        .chain(qemu.by_machine.values())
        .map(|path| real(path))
        .collect();
    let own = mains.find_map(|main| {
        let own = main.qemu.as_ref().filter(|_| main.starts_qemu)?;
        (!named.contains(&real(Path::new(&own.value)))).then_some(own)
    })?;
    let message = format!(
        "qemu is {}, but Kata's own configuration has {} for the handler ({}:{}), perhaps of \
        another build or for another TEE; name that one, unless it is meant",
        shown(qemu.default.as_os_str().as_encoded_bytes()),
        own.shown(),
        own.path,
        own.line
    );
    let (path, line) = place(set, effective.origins.of("qemu.default"));
    Some(Finding::new("qemu-differs", Severity::Warning, path, message).at_line(line))
}

/// As the installer looks at it before it says that a node is ready.
fn program(node: &NodeRoot, path: &Path) -> Result<(), (&'static str, SandboxError)> {
    let failed = |id, source| {
        let path = path.to_owned();
        Err((id, SandboxError::Exec { path, source }))
    };
    let real = node.real(path);
    if real.as_ref().is_err_and(is_denied) {
        return Ok(());
    }
    let is_wrapper = |real: &PathBuf| real.file_name().is_some_and(|name| name == wrapper::NAME);
    if real.is_ok_and(|real| is_wrapper(&real)) {
        return Err(("qemu-is-wrapper", SandboxError::QemuIsWrapper(path.into())));
    }
    let named = HostPath::parse(&path.to_string_lossy()).map_err(io::Error::other);
    let found = named.and_then(|named| {
        node_installer::program(node.path(), &named)
            .map_err(|error| io::Error::other(error.to_string()))
    });
    match found {
        Ok(Program::There) => Ok(()),
        Ok(Program::Absent | Program::Link) => failed("qemu-missing", Errno::NOENT.into()),
        Ok(Program::NotExecutable) => failed("qemu-not-executable", Errno::ACCESS.into()),
        Err(error) => failed("qemu-missing", error),
    }
}
