//! The guest components that the agent starts before it connects (`launch_process` and
//! `launch_plan` of Kata 4.1), its one connection, and a pull over it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use vm_harness::ttrpc::{call, field, fields, put};

use super::files::{self, MAX_TEXT_CHARS};
use crate::no_boot::hub::{KEY, config_file, configured};
use crate::no_boot::parameter;
use crate::options::CDH_SOCKET;

/// Where the agent wants the image; the name is that of a container.
const BUNDLE: &str = "/run/kata-containers/smoke";
const ROOTFS: &str = "/run/kata-containers/smoke/rootfs";

/// Where the agent starts the data hub from; it removes [`CDH_SOCKET`] before.
const HUB: &str = "/usr/local/bin/confidential-data-hub";

/// Connects as the agent does: if the socket is there now, or never. Not where it has taken the
/// socket away, or waits for another program's.
pub fn connect(socket: &str) -> Result<UnixStream, String> {
    let processes = processes();
    if socket == CDH_SOCKET && !matches!(processes.as_deref(), Some("none" | "attestation-agent")) {
        if fs::metadata(HUB).is_ok_and(|stat| stat.permissions().mode() & 0o111 != 0) {
            // Then it starts the hub, which makes its own.
            let _ = fs::remove_file(socket);
        }
        return Err(
            "the agent removes the puller's socket and starts a hub of the image's own, or \
                    finds none and connects to nobody"
                .to_owned(),
        );
    }
    UnixStream::connect(socket).map_err(|error| format!("no connection to {socket}: {error}"))
}

/// `agent.guest_components_procs`: from the file that the agent is given, or from the kernel's
/// parameters, of which the last counts.
fn processes() -> Option<String> {
    let words: Vec<String> = std::env::args().collect();
    if let Some(path) = config_file(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        return configured(&fs::read_to_string(path).unwrap_or_default())?;
    }
    let parameters = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    parameter(&parameters, KEY).map(str::to_owned)
}

/// Asks for the image; the digest of its manifest.
pub fn pull(image: &str, mut agent: UnixStream, limit: Duration) -> Result<String, String> {
    let mut payload = Vec::new();
    put(&mut payload, 1, image.as_bytes());
    put(&mut payload, 2, BUNDLE.as_bytes());
    let answer = fs::create_dir_all(BUNDLE)
        .and_then(|()| agent.set_read_timeout(Some(limit)))
        .map_err(anyhow::Error::from)
        .and_then(|()| call(&mut agent, "api.ImagePullService", "PullImage", &payload))
        .and_then(|answer| fields(&answer));
    match answer {
        Ok(answer) => Ok(String::from_utf8_lossy(&field(&answer, 1)).into_owned()),
        Err(error) if is_late(&error) => Err(format!("no answer in {} s", limit.as_secs())),
        Err(error) => Err(format!("{error:#}").chars().take(MAX_TEXT_CHARS).collect()),
    }
}

/// Whether the connection's limit is what ended a call.
fn is_late(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::WouldBlock)
}

/// The type of what is mounted where the image is to be, if there is something in it.
pub fn mounted() -> Option<String> {
    let is_empty = fs::read_dir(ROOTFS).map_or(true, |mut entries| entries.next().is_none());
    files::mounted_at(ROOTFS).filter(|_| !is_empty)
}
