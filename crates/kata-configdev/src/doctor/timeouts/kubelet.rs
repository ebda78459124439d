//! How long the kubelet waits for the container engine.

use std::path::Path;
use std::time::Duration;

use credential_sources::kubelet::flags;
use credential_sources::kubelet::node_config::{
    self, DEFAULT_RUNTIME_REQUEST_TIMEOUT, MAX_NODE_CONFIG_BYTES, RUNTIME_REQUEST_TIMEOUT_FLAG,
};

use super::{Ends, Timeout};
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::node::Node;
use crate::settings::KUBELET_FLAG_FILES;

/// The kubelet's configuration of kubeadm, EKS, k3s and others.
const CONFIGS: [&str; 4] = [
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/config.json",
    "/etc/kubernetes/kubelet/config.json",
    "/etc/kubernetes/kubelet-config.yaml",
];

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
    let mut put = |path: &str, found: Result<Option<Duration>, &'static str>| match found {
        Ok(None) => {}
        Ok(Some(limit)) => {
            timeout.limit = limit;
            timeout.path = Some(path.to_owned());
        }
        Err(why) => {
            let message = format!("{why}, so that the kubelet's time-out is not known; correct it");
            let severity = Severity::Warning;
            findings.push(Finding::new("kubelet-unread", severity, path, message));
        }
    };
    let read = |path: &str| node.read(Path::new(path), MAX_NODE_CONFIG_BYTES).ok();
    if let Some((path, text)) = CONFIGS.iter().find_map(|path| Some((path, read(path)?))) {
        put(path, node_config::runtime_request_timeout(&text));
    }
    for path in KUBELET_FLAG_FILES {
        let text = read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if let Some(value) = flags::value(&text, RUNTIME_REQUEST_TIMEOUT_FLAG) {
            put(path, node_config::time(&value));
        }
    }
    timeout
}
