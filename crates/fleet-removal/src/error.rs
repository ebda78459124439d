//! What can go wrong, and the exit codes.

use std::path::PathBuf;
use std::time::Duration;

/// The exit codes of the program.
pub mod exit {
    /// Wrong arguments.
    pub const USAGE: u8 = 64;
    /// What the pod was given, or the API server's answer, is not acceptable.
    pub const DATA: u8 = 65;
    /// The API server does not answer or refuses, nodes are not clean in time, or there are none.
    pub const UNAVAILABLE: u8 = 69;
    /// The machine or this program is at fault.
    pub const INTERNAL: u8 = 70;
}

/// Why nodes may still have what was installed. The messages are fragments that fit after "failed
/// to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This is no pod of a cluster.
    #[error("find the API server: {name} is not set to an address; this runs in a pod only")]
    NoServer {
        /// The variable that the kubelet sets.
        name: &'static str,
    },
    /// The pod has no token, or the files of it cannot be used.
    #[error("read {} of the pod's service account: {reason}", path.display())]
    Account {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The library cannot be used.
    #[error("make a client for the API server: {reason}")]
    Client {
        /// What the library says.
        reason: String,
    },
    /// No answer came.
    #[error("ask the API server at {server}: {reason}")]
    Unreachable {
        /// Its address.
        server: String,
        /// Why.
        reason: String,
    },
    /// It answered with something else than the object.
    #[error("{verb} the DaemonSet {name}: the API server answers {status}: {reason}")]
    Refused {
        /// What was asked for.
        verb: &'static str,
        /// Namespace and name.
        name: String,
        /// The HTTP status.
        status: u16,
        /// The server's own words, shortened.
        reason: String,
    },
    /// It answered with something that is no DaemonSet of the chart.
    #[error("understand the DaemonSet {name}: {reason}")]
    Answer {
        /// Namespace and name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Kubernetes ends the pod.
    #[error("go on: the pod is ended before all nodes are clean")]
    Ended,
    /// A node that lost the labels keeps what was installed, and no pod can remove it.
    #[error(
        "find a node to clean: none has the labels that the DaemonSet {name} selects by. A node \
        that lost them still has everything: label it again, then repeat the removal. To leave \
        the nodes as they are: helm uninstall --no-hooks"
    )]
    NoNodes {
        /// Namespace and name.
        name: String,
    },
    /// The time is over.
    #[error(
        "clean all nodes within {} s: {state}; the log of its pods says why: kubectl -n \
        {namespace} logs daemonset/{name}. To leave the nodes as they are: helm uninstall \
        --no-hooks",
        limit.as_secs()
    )]
    Late {
        /// How long was waited.
        limit: Duration,
        /// How far it came.
        state: String,
        /// The DaemonSet's namespace.
        namespace: String,
        /// The DaemonSet's name.
        name: String,
    },
}

impl Error {
    /// The exit code of a program that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoServer { .. } | Self::Account { .. } | Self::Answer { .. } => exit::DATA,
            Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::NoNodes { .. }
            | Self::Late { .. }
            | Self::Ended => exit::UNAVAILABLE,
            Self::Client { .. } => exit::INTERNAL,
        }
    }

    /// Whether the same request may succeed a little later: the API server is restarted, or has too
    /// much to do, or the role of the hook has not reached all of its instances.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 403 | 408 | 409 | 429 | 500..=599),
            _ => false,
        }
    }
}
