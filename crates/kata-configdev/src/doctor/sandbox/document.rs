//! Which document a sandbox has.

use std::path::Path;

use foreign_text::{one_line, shown};

use super::run_roots;
use crate::choice;
use crate::doctor::set::Set;
use crate::node_root::NodeRoot;
use crate::sandbox_document::ChosenBy;
use crate::sandbox_id::SandboxId;
use crate::sandbox_spec::{self, Pod};
use crate::settings::Settings;
use crate::shared_image::record::{self, Record};

/// The document of the sandbox, by its record, or what it gets by its bundle, and who says so. Safe
/// to show.
pub(super) fn of(
    node: &NodeRoot,
    sets: &[Set<'_>],
    id: &SandboxId,
    bundle: Option<&Path>,
) -> String {
    let found = find(node, sets, id, bundle).unwrap_or_else(|why| format!("not known: {why}"));
    one_line(&found).to_string()
}

fn find(
    node: &NodeRoot,
    sets: &[Set<'_>],
    id: &SandboxId,
    bundle: Option<&Path>,
) -> Result<String, String> {
    let mut records =
        run_roots(node, sets).filter_map(|run_root| record::read(&run_root, id).ok()?);
    if let Some(found) = records.next() {
        return Ok(of_record(&found));
    }
    let bundle = bundle.ok_or("the sandbox has no bundle on this node any more")?;
    let path = bundle.join(sandbox_spec::FILE_NAME);
    let spec = node
        .read(&path, sandbox_spec::MAX_SPEC_BYTES)
        .map_err(|fault| format!("the spec cannot be read: {fault}"))?;
    let pod = sandbox_spec::parse_pod(&spec)
        .map_err(|error| format!("the spec cannot be read: {error}"))?;
    let named = sets.iter().filter_map(|set| {
        let by = path_shown(&set.settings_file);
        Some(of_settings(node, set.settings()?, &by, &pod))
    });
    let named: Vec<String> = named.collect();
    match named.is_empty() {
        true => Err("no settings can be read".into()),
        false => Ok(named.join(", or ")),
    }
}

/// What the wrapper wrote down when the sandbox started.
fn of_record(record: &Record) -> String {
    let mut text = match &record.document {
        Some(document) => path_shown(document),
        None => "none".into(),
    };
    if let Some(fallback) = &record.fallback {
        text = format!("{}, until {text} is there", path_shown(fallback));
    }
    if let Some(namespace) = &record.namespace {
        text.push_str(&format!(", of the namespace {namespace}"));
    }
    format!("{text}, by the record beside its image")
}

/// What a wrapper with these settings, which are in the file `by`, gives a sandbox of `pod`.
fn of_settings(node: &NodeRoot, settings: &Settings, by: &str, pod: &Pod) -> String {
    if !settings.enabled {
        return format!("none, by {by}: enabled = false");
    }
    let file = match choice::choose(node, settings, pod) {
        Err(error) => return format!("none, by {by}: the wrapper fails to {error}"),
        Ok(None) => return format!("none{}", why_none(settings, by, pod)),
        Ok(Some(file)) => file,
    };
    let mut text = path_shown(&file.path);
    if node.is_missing(&file.path) {
        text.push_str(", which is not there, so that the guest gets the words of missing-document");
    }
    if let Some(own) = &file.instead_of {
        text.push_str(&format!(", because {} is not there", path_shown(own)));
    }
    match file.chosen_by {
        ChosenBy::Pod => format!("{text}, by the pod's annotation"),
        _ => format!("{text}, by {by}"),
    }
}

fn why_none(settings: &Settings, by: &str, pod: &Pod) -> String {
    match ChosenBy::of(settings, pod) {
        None if pod.document.is_some() => ": the pod's annotation is empty".into(),
        None => ": neither the pod nor settings name one".into(),
        Some(ChosenBy::Providers) => format!(", by {by}, but what credential providers offer"),
        Some(_) => format!(", by {by}: its namespace has none (namespace-fallback)"),
    }
}

fn path_shown(path: &Path) -> String {
    shown(path.as_os_str().as_encoded_bytes()).to_string()
}
