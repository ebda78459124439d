//! The kubelet's own configuration (`/var/lib/kubelet/config.yaml`), as far as it ends pulls.

use std::time::Duration;

use serde::Deserialize;
use serde_saphyr::DuplicateKeyPolicy;

use super::duration;
use crate::or_default;

/// The longest file; kubeadm's has 1 KiB. Free to change.
pub const MAX_NODE_CONFIG_BYTES: usize = 256 << 10;

/// The most nodes of the file. Free to change.
const MAX_NODES: usize = 16 << 10;

/// How long the kubelet waits for the container engine where nothing says so.
pub const DEFAULT_RUNTIME_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// The flag that says the same, and wins; without its hyphens, as k3s and RKE2 have it.
pub const RUNTIME_REQUEST_TIMEOUT_FLAG: &str = "runtime-request-timeout";

/// The flag that names the file.
pub const CONFIG_FLAG: &str = "--config";

/// The flag that names a directory of further files, `*.conf`, of which later ones win by name and
/// all win over the file.
pub const CONFIG_DIR_FLAG: &str = "--config-dir";

/// Everything else is the kubelet's own affair.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default, deserialize_with = "or_default")]
    runtime_request_timeout: String,
}

/// `runtimeRequestTimeout` of the file; `None` where it is not there, or zero, which is the default
/// to the kubelet.
///
/// # Errors
///
/// Why the file says nothing, as a fragment.
pub fn runtime_request_timeout(text: &[u8]) -> Result<Option<Duration>, &'static str> {
    if text.len() > MAX_NODE_CONFIG_BYTES {
        return Err("longer than a kubelet's configuration is");
    }
    let text = str::from_utf8(text).map_err(|_| "not UTF-8")?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_nodes: MAX_NODES,
            max_total_scalar_bytes: 2 * MAX_NODE_CONFIG_BYTES,
            max_recorded_anchor_bytes: 2 * MAX_NODE_CONFIG_BYTES,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        no_schema: true,
        with_snippet: false,
    };
    // JSON is YAML.
    let raw: Raw = serde_saphyr::from_str_with_options(text, options)
        .map_err(|_| "not what a KubeletConfiguration is")?;
    time(&raw.runtime_request_timeout)
}

/// A time as the file or the flag has it.
///
/// # Errors
///
/// That it is none.
pub fn time(text: &str) -> Result<Option<Duration>, &'static str> {
    if text.is_empty() {
        return Ok(None);
    }
    let time = duration::parse(text).map_err(|_| "runtimeRequestTimeout is no time such as 15m")?;
    Ok(time.filter(|time| !time.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_found_in_yaml_and_json() {
        let secs = |secs| Ok(Some(Duration::from_secs(secs)));
        for (text, expected) in [
            ("kind: KubeletConfiguration\nruntimeRequestTimeout: 10m0s\n", secs(600)),
            ("{\"runtimeRequestTimeout\": \"1h\", \"x\": [1]}", secs(3600)),
            ("runtimeRequestTimeout: 0s\nclusterDNS:\n- 10.96.0.10\n", Ok(None)),
            ("kind: KubeletConfiguration\n", Ok(None)),
            ("runtimeRequestTimeout: null\n", Ok(None)),
            ("runtimeRequestTimeout: soon\n", Err("runtimeRequestTimeout is no time such as 15m")),
            ("- 1\n", Err("not what a KubeletConfiguration is")),
        ] {
            assert_eq!(runtime_request_timeout(text.as_bytes()), expected, "{text}");
        }
    }
}
