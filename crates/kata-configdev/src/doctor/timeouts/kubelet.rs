//! How long the kubelet waits for the container engine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use credential_sources::kubelet::node_config::{
    self, CONFIG_DIR_FLAG, CONFIG_FLAG, DEFAULT_RUNTIME_REQUEST_TIMEOUT, MAX_NODE_CONFIG_BYTES,
    RUNTIME_REQUEST_TIMEOUT_FLAG,
};
use foreign_text::shown;

use super::{Ends, Timeout};
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::kubelet_flags::{KubeletFlags, MAX_DROP_INS};
use crate::doctor::node::{Node, is_denied};
use crate::node_root::Listed;

/// Where the kubelet's configuration is, if no flag names another file: that of kubeadm, EKS and
/// others. In `/var/lib/kubelet/config.json` the kubelet looks for docker's credentials.
const CONFIGS: [&str; 3] = [
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet/config.json",
    "/etc/kubernetes/kubelet-config.yaml",
];

/// Where the kubelet's drop-ins are, if no flag names another directory: those of EKS, whose flags
/// are in a file that systemd alone reads, and of k3s and RKE2, which name it themselves.
const CONFIG_DIRS: [&str; 3] = [
    "/etc/kubernetes/kubelet/config.json.d",
    "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
    "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d",
];

/// The kubelet's limit: its flag, else the last of its drop-ins that says so, else its file, else
/// what it has by itself; `None` where a file that may say so cannot be read.
pub(super) fn limit(node: &Node, findings: &mut Vec<Finding>) -> Option<Timeout> {
    let mut found = Found { limit: Some((DEFAULT_RUNTIME_REQUEST_TIMEOUT, None)), findings };
    let flags = KubeletFlags::read(node);
    let configs = flags.path(CONFIG_FLAG).into_iter().chain(CONFIGS.map(PathBuf::from));
    for path in configs {
        if found.file(node, &path) {
            break;
        }
    }
    let named = flags.path(CONFIG_DIR_FLAG).into_iter();
    for directory in named.chain(CONFIG_DIRS.map(PathBuf::from)) {
        if found.directory(node, &directory) {
            break;
        }
    }
    for (path, value) in flags.values(RUNTIME_REQUEST_TIMEOUT_FLAG) {
        found.put(path, node_config::time(&value).map_err(str::to_owned));
    }
    let (limit, path) = found.limit?;
    Some(Timeout {
        handler: None,
        who: "kubelet",
        key: "runtimeRequestTimeout",
        limit,
        ends: Ends::Pull,
        path,
        line: 0,
        then: "the pod shows DeadlineExceeded, and the next request joins the pull",
    })
}

/// What was found so far; a later word wins.
struct Found<'f> {
    /// The limit and the file that says so; `None` where one that wins cannot be read.
    limit: Option<(Duration, Option<String>)>,
    findings: &'f mut Vec<Finding>,
}

impl Found<'_> {
    fn put(&mut self, path: &Path, said: Result<Option<Duration>, String>) {
        match said {
            Ok(None) => {}
            Ok(Some(limit)) => {
                let path = shown(path.as_os_str().as_encoded_bytes()).to_string();
                self.limit = Some((limit, Some(path)));
            }
            Err(why) => {
                self.limit = None;
                let message =
                    format!("{why}, so that the kubelet's time-out is not known; correct it");
                let severity = Severity::Warning;
                let finding = Finding::new("kubelet-unread", severity, path, message);
                self.findings.push(finding);
            }
        }
    }

    /// Takes what a file says; whether it is there.
    fn file(&mut self, node: &Node, path: &Path) -> bool {
        let said = match node.read(path, MAX_NODE_CONFIG_BYTES) {
            Err(fault) if fault.is_absent() => return false,
            Err(fault) if is_denied(&fault) => {
                self.limit = None;
                return true;
            }
            Err(fault) => Err(fault.to_string()),
            Ok(text) => node_config::runtime_request_timeout(&text).map_err(str::to_owned),
        };
        self.put(path, said);
        true
    }

    /// Takes what the drop-ins of a directory say, by name; whether it is there.
    fn directory(&mut self, node: &Node, directory: &Path) -> bool {
        let listed = match node.list_all(directory) {
            Err(fault) if fault.is_absent() => return false,
            Err(fault) => {
                self.put(directory, Err(fault.to_string()));
                return true;
            }
            Ok(listed) => listed,
        };
        let is_drop_in = |entry: &Listed| !entry.is_directory && entry.name.ends_with(".conf");
        let drop_ins = listed.into_iter().filter(is_drop_in);
        for entry in drop_ins.take(MAX_DROP_INS) {
            self.file(node, &directory.join(entry.name));
        }
        true
    }
}
