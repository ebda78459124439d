//! What dead sandboxes and killed programs left.

use std::path::Path;

use node_installer::installation::NAME as LIST;

use super::finding::{Finding, Severity};
use super::installation::DEFAULT_PREFIX;
use super::set::Set;
use crate::node_root::NodeRoot;
use crate::run_directory::PARENT as STATE;
use crate::sandbox_id::SandboxId;
use crate::settings::DEFAULT_RUN_ROOT;
use crate::sweep::{self, DEFAULT_MIN_AGE, SweepError, Swept};

/// The most sandboxes that are told. Free to change; the sweep removes all.
const MAX_TOLD: usize = 20;

/// What of dead sandboxes is below the `run-root` of each set, each place once; without settings
/// below the usual one. On another machine than the node, nobody sees which sandboxes live but by
/// their locks.
pub fn check(node: &NodeRoot, sets: &[Set<'_>], findings: &mut Vec<Finding>) {
    let mut run_roots: Vec<&Path> = Vec::new();
    for settings in sets.iter().filter_map(Set::settings) {
        if !run_roots.contains(&settings.run_root.as_path()) {
            run_roots.push(&settings.run_root);
        }
    }
    if run_roots.is_empty() {
        run_roots.push(Path::new(DEFAULT_RUN_ROOT));
    }
    if sets.is_empty() {
        findings.extend(state(node));
    }
    for run_root in run_roots {
        let Ok(here) = node.seen(run_root) else {
            continue;
        };
        let seen = match node.is_here() {
            true => sweep::survey(&here, DEFAULT_MIN_AGE),
            false => sweep::survey_released(&here).map_err(SweepError::from),
        };
        match seen {
            Ok(swept) => findings.extend(told(run_root, swept)),
            Err(error) => {
                let message = format!(
                    "what sandboxes left here is not looked at: failed to {}: {}",
                    node.told(&error.to_string()),
                    error.remedy()
                );
                let id = "leftovers-unread";
                findings.push(Finding::new(id, Severity::Warning, run_root, message));
            }
        }
    }
}

/// What is below the usual run root of a node where nothing is installed any more.
fn state(node: &NodeRoot) -> Option<Finding> {
    let path = Path::new(DEFAULT_RUN_ROOT).join(STATE);
    if node.is_missing(&path) || has_list(node) {
        return None;
    }
    let message = "nothing that uses it is installed here, and it may hold credentials; remove it \
        (rm -r) once no sandbox of that installation runs";
    Some(Finding::new("leftover-state", Severity::Warning, path, message))
}

/// Whether the list of an installation may be in the usual prefix, or in one right below it.
fn has_list(node: &NodeRoot) -> bool {
    let usual = Path::new(DEFAULT_PREFIX);
    let below = node.list(usual).unwrap_or_default();
    let below = below.iter().filter(|entry| entry.is_directory);
    let below = below.map(|entry| usual.join(&entry.name));
    let mut prefixes = below.chain([usual.to_owned()]);
    prefixes.any(|prefix| !node.is_missing(&prefix.join(LIST)))
}

fn told(run_root: &Path, swept: Swept) -> Vec<Finding> {
    let message = format!(
        "the sandbox is gone, and what it was configured with is still here; kata-configdev sweep \
        --run-root {} removes it, and the node agent does so by itself",
        run_root.display()
    );
    let images = swept.removed.iter().map(|sandbox: &SandboxId| {
        let path = crate::shared_image::directory(run_root, sandbox);
        Finding::new("leftover-image", Severity::Warning, path, &message)
    });
    let remains = swept.remains.iter().flat_map(|(_, paths)| paths).map(|path| {
        let message = "Kata left this of a sandbox that is gone; remove it by hand";
        Finding::new("leftover-of-kata", Severity::Note, path, message)
    });
    let images = images.take(MAX_TOLD);
    images.chain(remains.take(MAX_TOLD)).collect()
}
