//! The numbers of the sets, for a collector.

use std::time::UNIX_EPOCH;

use node_health::Numbers;
use node_health::metrics::SetNumbers;
use node_installer::{Options, Set};
use registry_config::Document;

use super::root_expiry;
use super::sandboxes::{read, run_roots, seen};
use crate::refusal::last;
use crate::settings::Effective;
use crate::settings::files::Files;

/// Counts what stands on the node, and what the wrapper left there to be counted.
pub(super) fn node(options: &Options, numbers: &mut Numbers) {
    numbers.sets.clear();
    numbers.root_expiry.clear();
    for (name, set) in &options.sets {
        let path = options.document(name);
        let text = read(options, path.as_str().as_ref());
        let document = text.ok().and_then(|text| Document::parse(&text).ok());
        let document = document.map(|checked| checked.document);
        let kind = match &document {
            None if !set.has_own_document() => "by-namespace",
            None => "absent",
            Some(document) if document.node_error.is_some() => "node-error",
            Some(document) if is_empty(document) => "nothing",
            Some(_) => "document",
        };
        let on_node = seen(options, path.as_str().as_ref());
        let modified = on_node.symlink_metadata().and_then(|found| found.modified());
        let since = modified.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        numbers.sets.insert(
            name.clone(),
            SetNumbers {
                document: kind,
                changed: since.map(|since| since.as_secs_f64()),
                enabled: is_enabled(options, set),
            },
        );
        for (registry, seconds) in document.iter().flat_map(root_expiry::first) {
            numbers.root_expiry.insert((name.clone(), registry), seconds);
        }
    }
    numbers.refused.clear();
    for run_root in run_roots(options).iter().filter(|_| options.sandboxes) {
        for (cause, count) in last::recent(run_root) {
            *numbers.refused.entry(cause).or_default() += count;
        }
    }
}

/// Whether the wrapper of the set is on, as it reads the node's files, whoever wrote them.
fn is_enabled(options: &Options, set: &Set) -> bool {
    let path = seen(options, set.settings_file.as_str().as_ref());
    Effective::salvage(&Files::read(&path)).settings.enabled
}

fn is_empty(document: &Document) -> bool {
    document.registries.iter().next().is_none()
        && !document.has_extra_env
        && document.decryption_keys.is_empty()
}
