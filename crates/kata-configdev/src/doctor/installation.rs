//! The installer's own list: whose the node is, and whether all of it is there.

use std::collections::BTreeSet;
use std::path::Path;

use node_installer::{HostPath, installation};

use super::finding::{Finding, Severity};
use super::node::Node;
use super::set::Set;

/// The prefix of an installer that is not told another.
const DEFAULT_PREFIX: &str = "/opt/kata-configdev";

/// The most files that are told of each list. Free to change.
const MAX_TOLD: usize = 20;

/// Looks at every installation: in the usual prefix, and in those of the wrappers of `sets`.
pub fn check(node: &Node, sets: &[Set<'_>], findings: &mut Vec<Finding>) {
    let wrappers = sets.iter().filter_map(|set| set.wrapper);
    // PREFIX/SET/bin/kata-configdev-qemu.
    let prefixes = wrappers.filter_map(|wrapper| Path::new(&wrapper.value).ancestors().nth(3));
    let prefixes = prefixes.filter_map(Path::to_str).chain([DEFAULT_PREFIX]);
    let prefixes: BTreeSet<HostPath> = prefixes.filter_map(|it| HostPath::parse(it).ok()).collect();
    for prefix in prefixes {
        match installation::look_at(&node.host, &prefix) {
            Ok(None) => {}
            Ok(Some(installed)) => findings.extend(told(&installed)),
            Err(error) => {
                let message = format!("the installer's list is not looked at: {error}");
                let id = "installation-unread";
                findings.push(Finding::new(
                    id,
                    Severity::Warning,
                    prefix.as_str(),
                    message,
                ));
            }
        }
    }
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
        Finding::new(
            "installation-missing",
            Severity::Warning,
            path.as_str(),
            message,
        )
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
        .chain(unfinished.take(MAX_TOLD))
        .collect()
}
