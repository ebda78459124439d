//! The wrapper that Kata is pointed to.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use node_installer::limits::MAX_WRAPPER_BYTES;

use super::finding::{Finding, Severity};
use super::node::is_denied;
use super::set::Set;
use crate::host_file::HostFile;
use crate::node_root::NodeRoot;
use crate::wrapper::NAME;

/// Whether the wrapper of `set` is there, can be executed, and is of this program's build.
pub fn check(node: &NodeRoot, set: &Set<'_>, findings: &mut Vec<Finding>) {
    let Some(wrapper) = set.wrapper else {
        return;
    };
    let path = Path::new(&wrapper.value);
    let mut fault = |id, what: &str| {
        let message = format!(
            "hypervisor.qemu.path is {}, which {what}, so that no sandbox of the handler starts; \
            put the wrapper there, or remove this drop-in",
            wrapper.shown()
        );
        let finding = Finding::new(id, Severity::Fault, &wrapper.path, message);
        findings.push(finding.at_line(wrapper.line));
    };
    match node.metadata(path) {
        Err(error) if error.is_absent() => fault("wrapper-missing", "is not there"),
        Err(error) if is_denied(&error) => {}
        Err(error) => fault("wrapper-missing", &format!("cannot be looked at: {error}")),
        Ok(found) if !found.is_file() || found.permissions().mode() & 0o111 == 0 => {
            fault("wrapper-not-executable", "cannot be executed");
        }
        Ok(_) => findings.extend(version(node, path)),
    }
}

/// Whether it is another build than the one beside this program. What it would answer to
/// `--wrapper-version` is in its bytes: a program of the node is not started to hear it.
fn version(node: &NodeRoot, path: &Path) -> Option<Finding> {
    let own = HostFile::open(&beside_this_program()?).ok()?;
    let found = node.read(path, MAX_WRAPPER_BYTES).ok()?;
    if found == own.read(MAX_WRAPPER_BYTES).ok()? {
        return None;
    }
    let version = match program_version::of_program(&found) {
        Some(version) => format!("is version {version}"),
        None => "does not say its version".to_owned(),
    };
    let message = format!(
        "it {version}, and is another build than the one beside this program, which is version \
        {}; update one of them, or use the kata-configdev that lies beside this wrapper",
        program_version::VERSION
    );
    Some(Finding::new("wrapper-version", Severity::Note, path, message))
}

fn beside_this_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.join(NAME))
}
