//! The kubelet's flags, where the node's installer keeps them.

use std::path::{Path, PathBuf};

use credential_sources::kubelet::flags;

use crate::node_root::NodeRoot;
use crate::settings::KUBELET_FLAG_FILES;

/// The directories of systemd's units, a later one before an earlier one.
const UNITS: [&str; 2] = ["/usr/lib/systemd/system", "/etc/systemd/system"];

/// Where k3s and RKE2 have the arguments of their kubelet.
const RANCHER: [&str; 2] = ["/etc/rancher/k3s/config.yaml", "/etc/rancher/rke2/config.yaml"];

/// The most drop-ins of the kubelet's unit, and the longest file. Free to change.
const MAX_DROP_INS: usize = 32;
const MAX_FILE_BYTES: usize = 256 << 10;

/// The texts that may have the kubelet's flags, the later ones later in its arguments.
#[derive(Debug)]
pub(super) struct KubeletFlags(Vec<String>);

impl KubeletFlags {
    /// Those of `node`.
    pub(super) fn read(node: &NodeRoot) -> Self {
        let texts = files(node).into_iter().filter_map(|path| {
            let text = node.read(&path, MAX_FILE_BYTES).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        });
        Self(texts.collect())
    }

    /// The value of a flag that counts.
    pub(super) fn path(&self, flag: &str) -> Option<PathBuf> {
        let mut texts = self.0.iter().rev();
        let value = texts.find_map(|text| flags::value(text, flag));
        value.map(PathBuf::from)
    }
}

fn files(node: &NodeRoot) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for directory in UNITS.map(Path::new) {
        files.push(directory.join("kubelet.service"));
        let drop_ins = directory.join("kubelet.service.d");
        let listed = node.list(&drop_ins).unwrap_or_default();
        let listed = listed.into_iter().filter(|entry| entry.name.ends_with(".conf"));
        files.extend(listed.take(MAX_DROP_INS).map(|entry| drop_ins.join(entry.name)));
    }
    let others = KUBELET_FLAG_FILES.into_iter().chain(RANCHER);
    files.extend(others.map(PathBuf::from));
    files
}
