//! Docker's credential files that the kubelet itself reads: the host pulls with them, guests do
//! not.

use std::path::{Path, PathBuf};

use credential_sources::docker_config::{MAX_CONFIG_BYTES, Widening};
use credential_sources::merge::is_taken;
use credential_sources::secretgen::{SourceFile, import};
use foreign_text::shown;
use registry_config::{Document, RegistryName};

use super::finding::{Finding, Severity};
use super::kubelet_flags::KubeletFlags;
use super::set::Set;
use crate::node_root::NodeRoot;

/// The kubelet's own directory, and the flag that names another.
const ROOT_DIR: &str = "/var/lib/kubelet";
const ROOT_DIR_FLAG: &str = "--root-dir";

/// Where it looks after its own directory, for the file of either form: its working directory,
/// which is `/` as systemd starts it, its home and `/`. A service has no home unless its unit sets
/// HOME, and then it is root's.
const JSON: [&str; 3] = ["/config.json", "/root/.docker/config.json", "/.docker/config.json"];
const LEGACY: [&str; 2] = ["/.dockercfg", "/root/.dockercfg"];

/// The most registries that are told by name. Free to change.
const MAX_TOLD: usize = 3;

/// Says which file the kubelet takes credentials from that the document of `set` does not have.
/// The kubelet takes the first that it can read, and no other.
pub fn check(node: &NodeRoot, set: &Set<'_>, findings: &mut Vec<Finding>) {
    let Some(settings) = set.settings().filter(|settings| settings.enabled) else {
        return;
    };
    let Some((path, names)) = first(node) else {
        return;
    };
    let document = set.document.as_ref();
    let mut lacking =
        names.iter().filter(|name| document.is_none_or(|document| !has(document, name)));
    let told: Vec<String> = lacking.by_ref().take(MAX_TOLD).map(|name| safe(name)).collect();
    if told.is_empty() {
        return;
    }
    let more = match lacking.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let into = match (&settings.document, settings.is_by_namespace()) {
        (Some(document), false) => shown(document.as_os_str().as_encoded_bytes()).to_string(),
        _ => "DOCUMENT".to_owned(),
    };
    let message = format!(
        "the kubelet pulls on the host with credentials for {}{more} from here, which guests do \
        not have; add them where guests should: kata-configdev import docker-config --into {into} \
        {}",
        told.join(", "),
        shown(path.as_os_str().as_encoded_bytes())
    );
    let id = "kubelet-docker-config";
    findings.push(Finding::new(id, Severity::Note, path, message));
}

/// The first file that the kubelet can read, and the names of the registries that it has
/// credentials for.
fn first(node: &NodeRoot) -> Option<(PathBuf, Vec<String>)> {
    let root_dir = KubeletFlags::read(node).path(ROOT_DIR_FLAG);
    let root_dir = root_dir.unwrap_or_else(|| ROOT_DIR.into());
    let json = [root_dir.join("config.json")].into_iter().chain(JSON.map(PathBuf::from));
    let legacy = [root_dir.join(".dockercfg")].into_iter().chain(LEGACY.map(PathBuf::from));
    json.chain(legacy)
        .find_map(|path| Some((names(node, &path)?, path)))
        .map(|(names, path)| (path, names))
}

/// For which registries a file has credentials; `None` where it is none of docker's.
fn names(node: &NodeRoot, path: &Path) -> Option<Vec<String>> {
    let text = node.read(path, MAX_CONFIG_BYTES).ok()?;
    let file = SourceFile { name: "", text: &text };
    // An entry for more than a document can say is the kubelet's all the same.
    let imported = import(&[file], None, Widening::Allowed);
    let names = imported.offers.into_iter().map(|offer| offer.name);
    imported.faults.is_empty().then(|| names.collect())
}

/// Whether the document has credentials for the registry or repositories `name`.
fn has(document: &Document, name: &str) -> bool {
    let Ok(name) = RegistryName::parse(name) else {
        return false;
    };
    let Some(host) = name.host() else {
        return false;
    };
    is_taken(&document.registries, &host, name.repositories())
}

fn safe(name: &str) -> String {
    shown(name.trim_end_matches('.').as_bytes()).to_string()
}
