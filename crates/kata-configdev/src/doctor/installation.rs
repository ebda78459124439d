//! The installer's own list: whose the node is, and whether all of it is there.

use std::collections::BTreeSet;
use std::path::Path;

use node_installer::{Error, HostPath, installation};

use super::finding::{Finding, Severity};
use super::set::Set;
use crate::node_root::NodeRoot;

/// The prefix of an installer that is not told another.
pub(super) const DEFAULT_PREFIX: &str = "/opt/kata-configdev";

/// How the setting `document` of a set ends that has one for each namespace.
const BY_NAMESPACE: &str = "namespaces/{namespace}.toml";

/// The most files that are told of each list. Free to change.
const MAX_TOLD: usize = 20;

/// Looks at every installation: in the usual prefix, and in those of the wrappers of `sets`.
pub fn check(node: &NodeRoot, sets: &[Set<'_>], findings: &mut Vec<Finding>) {
    let wrappers = sets.iter().filter_map(|set| set.wrapper);
    // PREFIX/SET/bin/kata-configdev-qemu.
    let prefixes = wrappers.filter_map(|wrapper| Path::new(&wrapper.value).ancestors().nth(3));
    let prefixes = prefixes.filter_map(Path::to_str).chain([DEFAULT_PREFIX]);
    let prefixes: BTreeSet<HostPath> = prefixes.filter_map(|it| HostPath::parse(it).ok()).collect();
    let document_dirs: Vec<HostPath> = sets.iter().filter_map(document_dir).collect();
    for prefix in prefixes {
        match installation::look_at(node.path(), &prefix, &document_dirs) {
            Ok(None) => {}
            Ok(Some(installed)) => findings.extend(told(&installed)),
            Err(Error::Untrusted { path, fault }) => {
                let message = format!(
                    "{fault}, and the installer of {prefix} removes and replaces what its list \
                    there names: it does nothing until you {}",
                    fault.remedy()
                );
                let id = "installation-untrusted";
                findings.push(Finding::new(id, Severity::Fault, path, message));
            }
            Err(error) => {
                let message = format!("the installer's list is not looked at: {error}");
                let id = "installation-unread";
                findings.push(Finding::new(id, Severity::Warning, prefix.as_str(), message));
            }
        }
    }
}

/// The directory that has the documents of all sets: DIR/SET/imagepuller.toml, or
/// DIR/SET/namespaces/{namespace}.toml.
fn document_dir(set: &Set<'_>) -> Option<HostPath> {
    let document = set.settings()?.document.as_deref()?;
    let above = match document.ends_with(BY_NAMESPACE) {
        true => 3,
        false => 2,
    };
    HostPath::parse(document.ancestors().nth(above)?.to_str()?).ok()
}

fn told(installed: &installation::Installed) -> Vec<Finding> {
    let owner = match &installed.owner {
        Some(owner) => owner.to_string(),
        None => "an installer without a name".to_owned(),
    };
    let path = installed.path.as_str();
    let message = format!(
        "{owner} keeps {} files on this node; change its configuration or its secrets, and none of \
        these files: it takes a changed one for somebody else's",
        installed.files
    );
    let own = Finding::new("installation", Severity::Note, path, message);
    let missing = installed.missing.iter().map(|path| {
        let message = format!(
            "{owner} installed it, and it is not there; see that its pod runs on this node, or \
            remove the installation with kata-configdev uninstall"
        );
        Finding::new("installation-missing", Severity::Warning, path.as_str(), message)
    });
    let staying = installed.staying.iter().map(|path| {
        let message = format!(
            "{owner} has it on its list, but somebody changed it, or no such file belongs here: an \
            installer leaves it, and each removal names it. Remove it, or else its entry from {}",
            installed.path
        );
        let id = "installation-staying";
        Finding::new(id, Severity::Warning, path.as_str(), message)
    });
    let unfinished = installed.unfinished.iter().map(|path| {
        let message = "an installer that was killed left it, and it may hold a secret; the next \
            pass of the installer removes it";
        let id = "installation-unfinished";
        Finding::new(id, Severity::Warning, path.as_str(), message)
    });
    let missing = missing.take(MAX_TOLD);
    [own]
        .into_iter()
        .chain(missing)
        .chain(staying.take(MAX_TOLD))
        .chain(unfinished.take(MAX_TOLD))
        .collect()
}
