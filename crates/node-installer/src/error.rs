//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;

use credential_sources::merge::MergeError;
use registry_config::{MAX_DOCUMENT_BYTES, MAX_REGISTRIES, Problems};

use crate::administered::NotAdministered;
use crate::kata::Finding;
use crate::limits::{MAX_OPTIONS_BYTES, MAX_WRAPPER_BYTES};
use crate::{HostPath, Owner};

/// The exit codes of a program that ends with an [`Error`].
pub mod exit {
    /// A document, the configuration, or a file on the node is not acceptable.
    pub const DATA: u8 = 65;
    /// Something that should be there is not, or cannot be written.
    pub const UNAVAILABLE: u8 = 69;
    /// The machine or this program is at fault.
    pub const INTERNAL: u8 = 70;
}

/// Everything that can go wrong, as a fragment that fits after "failed to". Never holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be read.
    #[error("read the configuration {}: {source}", path.display())]
    OptionsFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration is longer than any real one.
    #[error("read the configuration {}: it has more than {MAX_OPTIONS_BYTES} \
    bytes", path.display())]
    OptionsLength {
        /// The file.
        path: PathBuf,
    },
    /// The configuration says something that is not understood.
    #[error("understand the configuration{}: {rule}", at_line(*line))]
    OptionsText {
        /// The line, or 0 where the rule concerns no single one.
        line: usize,
        /// The broken rule.
        rule: String,
    },
    /// The directory that the node is mounted below cannot be opened.
    #[error("open {}, below which the node's directories should be mounted: \
    {source}", path.display())]
    Host {
        /// The directory in the container.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program that should be installed cannot be read.
    #[error("read the program {}: {source}", path.display())]
    Wrapper {
        /// The file in the container.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program that should be installed is none of ours.
    #[error("read the program {}: it is empty or has more than {MAX_WRAPPER_BYTES} \
    bytes", path.display())]
    WrapperLength {
        /// The file in the container.
        path: PathBuf,
    },
    /// Somebody else holds the lock on the prefix.
    #[error("lock {path} on the node: another installer is at work there")]
    Locked {
        /// The prefix.
        path: HostPath,
    },
    /// The prefix has files of another owner.
    #[error(
        "use {path} on the node: what is installed there belongs to {owner}; give every \
        installation a prefix of its own, or remove that one first"
    )]
    Owned {
        /// The prefix.
        path: HostPath,
        /// Whose it is.
        owner: Owner,
    },
    /// The list of installed files cannot be used.
    #[error(
        "read the list of installed files {path}: {reason}; without it nothing is changed or \
        removed"
    )]
    Manifest {
        /// The list.
        path: HostPath,
        /// Why.
        reason: String,
    },
    /// Somebody else than the administrator can write the list of installed files, or exchange it.
    #[error(
        "trust {path} on the node: {fault}; {}. Whoever can write there would decide what root \
        installs and removes; nothing is installed or removed",
        fault.remedy()
    )]
    Untrusted {
        /// The list, the prefix, or a directory above.
        path: String,
        /// Why.
        fault: NotAdministered,
    },
    /// The node's file system refused.
    #[error("{action} {path} on the node: {source}")]
    Node {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: HostPath,
        /// Why.
        source: io::Error,
    },
    /// A directory that belongs to Kata is not there.
    #[error(
        "install the drop-in below {path}: there is no such directory; is Kata installed, and is \
        the directory mounted? No other drop-in of the set is removed until it is there"
    )]
    HandlerMissing {
        /// The handler's configuration directory.
        path: HostPath,
    },
    /// A mounted directory was deleted on the node, and so may have been replaced by one that is
    /// not seen from here.
    #[error(
        "use {path}: it was deleted on the node after it was mounted; a restart of the container \
        mounts its successor"
    )]
    DirectoryDeleted {
        /// The directory.
        path: HostPath,
    },
    /// A file is in the way that this program did not write, or that somebody changed since.
    #[error(
        "install the {what} {path}: a file is there that somebody else wrote or changed; it is \
        left as it is. Remove it from the node to have it replaced"
    )]
    NotOurs {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: HostPath,
    },
    /// Credentials are missing from a document that is full.
    #[error(
        "put all credentials into the document of the set {set}: {count} of them are left out, for \
        it has at most {MAX_REGISTRIES} entries and {MAX_DOCUMENT_BYTES} bytes; give the set fewer \
        docker configurations"
    )]
    NoRoom {
        /// The set.
        set: String,
        /// How many are left out.
        count: usize,
    },
    /// A file that should go was changed by somebody else.
    #[error("remove {path}: somebody else changed it, so that it is left as it is{}", after(*told))]
    LeftBehind {
        /// The file.
        path: HostPath,
        /// Whether it stays listed, and so is told again.
        told: bool,
    },
    /// A file is on the list that no installation with this configuration has there.
    #[error(
        "remove {path}: the list of installed files calls it a {what}, but with this configuration \
        no {what} is there, so that it is left as it is. Remove it from the node if an earlier \
        configuration had it there, or else its entry from {list}"
    )]
    Misplaced {
        /// The file.
        path: HostPath,
        /// What the list says that it is for.
        what: &'static str,
        /// The list.
        list: HostPath,
    },
    /// A drop-in that should go was changed by somebody else: it lost what starts the wrapper.
    #[error(
        "remove {path}: somebody else changed it; its line with the wrapper goes, and the rest is \
        left as it is{}",
        after(*told)
    )]
    LineRemoved {
        /// The drop-in.
        path: HostPath,
        /// Whether it stays listed, and so is told again.
        told: bool,
    },
    /// A drop-in that should go was changed by somebody else, so that nobody knows how to take the
    /// wrapper out of it.
    #[error(
        "remove {path}: somebody else changed it, and what starts the wrapper is not a line of \
        its own; remove it from the node, or the line in it"
    )]
    DropInChanged {
        /// The drop-in.
        path: HostPath,
    },
    /// A file that a newer version listed without a digest that this one understands.
    #[error(
        "remove {path}: a newer version lists it without a SHA-256, so that nobody knows whether \
        it is as it was installed; remove it with that version, or from the node by hand"
    )]
    Unproven {
        /// The file.
        path: HostPath,
    },
    /// A newer version listed something in a form that this one does not understand.
    #[error(
        "remove everything that {path} names: a newer version wrote {count} of its entries in a \
        form that this one does not understand; uninstall with that version, or remove the rest \
        and the list from the node by hand"
    )]
    Unread {
        /// The list.
        path: HostPath,
        /// How many entries it is.
        count: usize,
    },
    /// Files stay that should go, because something that could not be removed needs them.
    #[error(
        "remove {}: {} the wrapper, and without these files no sandbox would start there; they give \
        sandboxes no document any more",
        listed(files),
        starting(drop_ins)
    )]
    Kept {
        /// Wrappers and settings.
        files: Vec<HostPath>,
        /// The drop-ins that stay; none where a newer list has files that are not understood.
        drop_ins: Vec<HostPath>,
    },
    /// Settings that must stay cannot be rewritten.
    #[error(
        "take the document out of {path}: it is no TOML; sandboxes fail until the drop-ins that \
        start the wrapper are removed"
    )]
    NotTaken {
        /// The settings.
        path: HostPath,
    },
    /// A file that should go is in a directory that is not seen from here.
    #[error(
        "remove {path}: its directory is not mounted. Mount it until this is done; if it is gone \
        from the node, an uninstallation on the node itself, with host = \"/\", ends this"
    )]
    NotMounted {
        /// The file.
        path: HostPath,
    },
    /// With Kata's own configuration no sandbox starts, or none through the wrapper.
    #[error("accept Kata's configuration {0}")]
    KataConfig(Finding),
    /// The wrapper would refuse its settings, with the drop-ins that are on the node.
    #[error("accept the settings of the set {set}, with which every sandbox would fail: {rule}")]
    Settings {
        /// The set.
        set: String,
        /// What the wrapper would say, with file and line.
        rule: String,
    },
    /// Documents are by namespace, and nobody knows which engine says the namespace of a pod.
    #[error(
        "tell which container engine runs the pods of this node, which the documents by namespace \
        of the set {set} need: this program's own mounts do not show it; say engine = \
        \"containerd\" or engine = \"cri-o\" in the configuration of the installer (the chart's \
        value engine). Until then the settings of the set stay as they are"
    )]
    Engine {
        /// The set.
        set: String,
    },
    /// The QEMU that the wrapper would become cannot be started.
    #[error(
        "find the QEMU of the set {set}: {path} ({place}): {rule}; every sandbox would fail. \
        Correct the path, or install that QEMU"
    )]
    Qemu {
        /// The set.
        set: String,
        /// The path on the node.
        path: String,
        /// Where the path stands.
        place: String,
        /// What is wrong with it.
        rule: String,
    },
    /// The mounted secret cannot be read.
    #[error("read the secret of the set {set} at {place}: {source}")]
    Secret {
        /// The set.
        set: String,
        /// The file in the container, and its secret.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// A required set waits for secrets.
    #[error("find what the set {set} requires: {what}; until then its sandboxes pull nothing")]
    Missing {
        /// The set.
        set: String,
        /// Which secrets have not come, as its sandboxes are told.
        what: String,
    },
    /// The document is not valid; see [`Error::lines`] for all of it.
    #[error("accept the document of the set {set}: {}; {}", counted(problems), consequence(*kept))]
    Document {
        /// The set.
        set: String,
        /// Everything that is wrong, by line and key.
        problems: Problems,
        /// Whether an earlier document stays in place.
        kept: bool,
    },
    /// A secret has something in it, and nothing that can be used.
    #[error("accept the {what} of the set {set} at {place}: {rule}; {}", consequence(*kept))]
    Unusable {
        /// What the secret should hold.
        what: &'static str,
        /// The set.
        set: String,
        /// The file in the container, and its secret.
        place: String,
        /// The broken rule.
        rule: String,
        /// Whether an earlier document stays in place.
        kept: bool,
    },
    /// The path of a docker configuration cannot be completed.
    #[error("complete the path of a docker configuration: {source}")]
    DockerConfigPath {
        /// Why.
        source: io::Error,
    },
    /// The docker configurations cannot be put below the document; see [`Error::lines`] for all of
    /// it.
    #[error("put the docker configurations of the set {set} below its document; \
    {}", consequence(*kept))]
    Merge {
        /// The set.
        set: String,
        /// Why.
        source: MergeError,
        /// Whether an earlier document stays in place.
        kept: bool,
    },
    /// The decryption keys cannot be added to the document; see [`Error::lines`] for all of it.
    #[error("add the decryption keys of the set {set} to its document; {}", consequence(*kept))]
    Keys {
        /// The set.
        set: String,
        /// Why.
        source: MergeError,
        /// Whether an earlier document stays in place.
        kept: bool,
    },
    /// The kernel does not watch.
    #[error("watch for changes: {0}")]
    Watch(io::Error),
}

impl Error {
    /// The exit code of a program that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            // A file where a directory should be; or a rule of ours, such as a file's length.
            Self::Secret { source, .. }
                if matches!(source.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::Other) =>
            {
                exit::DATA
            }
            Self::OptionsFile { .. }
            | Self::OptionsLength { .. }
            | Self::OptionsText { .. }
            | Self::WrapperLength { .. }
            | Self::Manifest { .. }
            | Self::Untrusted { .. }
            | Self::NotOurs { .. }
            | Self::LeftBehind { .. }
            | Self::Misplaced { .. }
            | Self::LineRemoved { .. }
            | Self::DropInChanged { .. }
            | Self::NotTaken { .. }
            | Self::Unproven { .. }
            | Self::Unread { .. }
            | Self::KataConfig(_)
            | Self::Settings { .. }
            | Self::Engine { .. }
            | Self::Document { .. }
            | Self::Unusable { .. }
            | Self::Merge { .. }
            | Self::NoRoom { .. }
            | Self::Keys { .. } => exit::DATA,
            Self::Host { .. }
            | Self::Wrapper { .. }
            | Self::Locked { .. }
            | Self::Owned { .. }
            | Self::Node { .. }
            | Self::HandlerMissing { .. }
            | Self::DirectoryDeleted { .. }
            | Self::NotMounted { .. }
            | Self::Kept { .. }
            | Self::Qemu { .. }
            | Self::Secret { .. }
            | Self::Missing { .. }
            | Self::DockerConfigPath { .. } => exit::UNAVAILABLE,
            Self::Watch(_) => exit::INTERNAL,
        }
    }

    /// The error as lines for a log: one, or for a document one more for each of its problems.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("failed to {self}")];
        let (set, more) = match self {
            Self::Document { set, problems, .. } => (set, problems.to_string()),
            Self::Merge { set, source, .. } | Self::Keys { set, source, .. } => {
                (set, source.to_string())
            }
            Self::OptionsFile { .. }
            | Self::OptionsLength { .. }
            | Self::OptionsText { .. }
            | Self::Host { .. }
            | Self::Wrapper { .. }
            | Self::WrapperLength { .. }
            | Self::Locked { .. }
            | Self::Owned { .. }
            | Self::Manifest { .. }
            | Self::Untrusted { .. }
            | Self::Node { .. }
            | Self::HandlerMissing { .. }
            | Self::DirectoryDeleted { .. }
            | Self::NotOurs { .. }
            | Self::LeftBehind { .. }
            | Self::Misplaced { .. }
            | Self::LineRemoved { .. }
            | Self::DropInChanged { .. }
            | Self::NotTaken { .. }
            | Self::Unproven { .. }
            | Self::Unread { .. }
            | Self::Kept { .. }
            | Self::NotMounted { .. }
            | Self::KataConfig(_)
            | Self::Settings { .. }
            | Self::Engine { .. }
            | Self::Qemu { .. }
            | Self::Secret { .. }
            | Self::Missing { .. }
            | Self::Unusable { .. }
            | Self::NoRoom { .. }
            | Self::DockerConfigPath { .. }
            | Self::Watch(_) => return lines,
        };
        lines.extend(more.lines().map(|line| format!("document of the set {set}: {line}")));
        lines
    }
}

/// Who starts the wrapper of files that stay.
fn starting(drop_ins: &[HostPath]) -> String {
    match drop_ins {
        [] => "what a newer version listed in a form of its own may start".to_owned(),
        [one] => format!("{one} still starts"),
        several => format!("{} still start", listed(several)),
    }
}

fn listed(paths: &[HostPath]) -> String {
    let paths: Vec<&str> = paths.iter().map(HostPath::as_str).collect();
    paths.join(", ")
}

fn at_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!(" at line {line}") }
}

fn consequence(kept: bool) -> &'static str {
    if kept {
        "the previous document stays in place"
    } else {
        "sandboxes pull nothing until it is corrected"
    }
}

/// What becomes of a file that somebody else changed.
fn after(told: bool) -> &'static str {
    if told {
        "; remove or rename it on the node to complete the removal"
    } else {
        " and from now on no longer looked after"
    }
}

fn counted(problems: &Problems) -> String {
    match problems.iter().count() + problems.unlisted() {
        1 => "1 problem".into(),
        count => format!("{count} problems"),
    }
}
