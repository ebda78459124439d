//! How long the kubelet waits for the container engine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use credential_sources::kubelet::flags;
use credential_sources::kubelet::node_config::{
    self, CONFIG_FLAG, DEFAULT_RUNTIME_REQUEST_TIMEOUT, MAX_NODE_CONFIG_BYTES,
    RUNTIME_REQUEST_TIMEOUT_FLAG,
};
use foreign_text::shown;

use super::{Ends, Timeout};
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::node::Node;
use crate::settings::KUBELET_FLAG_FILES;

/// Where the kubelet's configuration is, if no flag names another file: that of kubeadm, EKS and
/// others.
const CONFIGS: [&str; 4] = [
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/config.json",
    "/etc/kubernetes/kubelet/config.json",
    "/etc/kubernetes/kubelet-config.yaml",
];

/// The directories of systemd's units, a later one before an earlier one.
const UNITS: [&str; 2] = ["/usr/lib/systemd/system", "/etc/systemd/system"];

/// Where k3s and RKE2 have the arguments of their kubelet.
const RANCHER: [&str; 2] = [
    "/etc/rancher/k3s/config.yaml",
    "/etc/rancher/rke2/config.yaml",
];

/// The most drop-ins of the kubelet's unit. Free to change.
const MAX_DROP_INS: usize = 32;

/// The kubelet's limit: its flag, else its file, else what it has by itself.
pub(super) fn limit(node: &Node, findings: &mut Vec<Finding>) -> Timeout {
    let mut timeout = Timeout {
        handler: None,
        who: "kubelet",
        key: "runtimeRequestTimeout",
        limit: DEFAULT_RUNTIME_REQUEST_TIMEOUT,
        ends: Ends::Pull,
        path: None,
        line: 0,
        then: "the pod shows DeadlineExceeded, and the next request joins the pull",
    };
    let mut put = |path: &Path, found: Result<Option<Duration>, String>| match found {
        Ok(None) => {}
        Ok(Some(limit)) => {
            timeout.limit = limit;
            timeout.path = Some(shown(path.as_os_str().as_encoded_bytes()).to_string());
        }
        Err(why) => {
            let message = format!("{why}, so that the kubelet's time-out is not known; correct it");
            let severity = Severity::Warning;
            findings.push(Finding::new("kubelet-unread", severity, path, message));
        }
    };
    let read = |path: &Path| node.read(path, MAX_NODE_CONFIG_BYTES).ok();
    let with_flags = flag_files(node).into_iter().filter_map(|path| {
        let text = String::from_utf8_lossy(&read(&path)?).into_owned();
        Some((path, text))
    });
    let with_flags: Vec<(PathBuf, String)> = with_flags.collect();
    let named = with_flags
        .iter()
        .rev()
        .find_map(|(_, text)| flags::value(text, CONFIG_FLAG));
    let configs = named
        .into_iter()
        .map(PathBuf::from)
        .chain(CONFIGS.map(PathBuf::from));
    for path in configs {
        match node.read(&path, MAX_NODE_CONFIG_BYTES) {
            Err(fault) if fault.is_absent() => continue,
            Err(fault) => put(&path, Err(fault.to_string())),
            Ok(text) => {
                let found = node_config::runtime_request_timeout(&text);
                put(&path, found.map_err(str::to_owned));
            }
        }
        break;
    }
    for (path, text) in with_flags {
        if let Some(value) = flags::value(&text, RUNTIME_REQUEST_TIMEOUT_FLAG) {
            put(&path, node_config::time(&value).map_err(str::to_owned));
        }
    }
    timeout
}

/// The files that may have the kubelet's flags, the later ones later in its arguments.
fn flag_files(node: &Node) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for directory in UNITS.map(Path::new) {
        files.push(directory.join("kubelet.service"));
        let drop_ins = directory.join("kubelet.service.d");
        let listed = node.list(&drop_ins).unwrap_or_default();
        let listed = listed
            .into_iter()
            .filter(|entry| entry.name.ends_with(".conf"));
        files.extend(
            listed
                .take(MAX_DROP_INS)
                .map(|entry| drop_ins.join(entry.name)),
        );
    }
    let others = KUBELET_FLAG_FILES.into_iter().chain(RANCHER);
    files.extend(others.map(PathBuf::from));
    files
}
