//! Why a sandbox or a command fails, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use puller_config::Problems;

use crate::choice::PathFault;
use crate::document_pattern::PatternFault;
use crate::host_file::FileFault;
use crate::sandbox_spec::{ANNOTATION, FILE_NAME};
use crate::settings::Transport;

/// The exit codes of both programs.
pub mod exit {
    /// Wrong arguments.
    pub const USAGE: u8 = 64;
    /// A document, an image, the settings or the sandbox's spec is not acceptable.
    pub const DATA: u8 = 65;
    /// Something that should be there is not: QEMU cannot be executed, an output not be written.
    pub const UNAVAILABLE: u8 = 69;
    /// The machine or this program is at fault.
    pub const INTERNAL: u8 = 70;
}

/// Everything that can go wrong, as a fragment that fits after "failed to". Never holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings file cannot be used.
    #[error("read the settings {}: {fault}", path.display())]
    SettingsFile {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: FileFault,
    },
    /// The settings file says something that is not understood.
    #[error("read the settings {}{}: {rule}", path.display(), at_line(*line))]
    SettingsText {
        /// The file.
        path: PathBuf,
        /// The line, or 0 where the rule concerns no single one.
        line: usize,
        /// The broken rule.
        rule: String,
    },
    /// The settings name this very program as QEMU.
    #[error("start QEMU: {} is this wrapper itself", path.display())]
    QemuIsWrapper {
        /// The configured path.
        path: PathBuf,
    },
    /// The sandbox's spec cannot be read.
    #[error("read the sandbox's {FILE_NAME}: {0}")]
    SpecFile(FileFault),
    /// The sandbox's spec is not one.
    #[error("read the sandbox's {FILE_NAME}: not an OCI spec at line {line}, column {column}")]
    SpecText {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// The annotation's value is refused for its form.
    #[error("use the annotation {ANNOTATION}: {0}")]
    AnnotationPath(PathFault),
    /// A directory of the allow-list cannot be opened.
    #[error("use the annotation {ANNOTATION}: open the allowed directory {}: \
    {source}", directory.display())]
    AnnotationDirectory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file that the annotation names is refused.
    #[error("use the annotation {ANNOTATION}: {}: {fault}", path.display())]
    AnnotationFile {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: FileFault,
    },
    /// The node's own document is refused.
    #[error("read the node's document {}: {fault}", path.display())]
    NodeFile {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: FileFault,
    },
    /// The pattern for the node's own document does not stand for one file.
    #[error("find the node's document {}: {fault}", pattern.display())]
    NodePattern {
        /// The pattern.
        pattern: PathBuf,
        /// Why.
        fault: PatternFault,
    },
    /// The kubelet's configuration of its credential providers cannot be used.
    #[error("read the kubelet's credential providers: {0}")]
    ProviderListing(crate::providers::ListingFault),
    /// The question of a kubelet is none.
    #[error("understand the kubelet's question: {0}")]
    ProviderRequest(String),
    /// The chosen document is not valid.
    #[error("accept the document {}: {}", path.display(), excerpt(problems))]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problems: Problems,
    },
    /// The machine type is not one that is known to take the disk.
    #[error("attach the configuration disk: {}", unknown_machine(machine.as_deref()))]
    Machine {
        /// The machine type, where the command line has one.
        machine: Option<String>,
    },
    /// The document does not fit into an image.
    #[error(transparent)]
    Pack(config_image::EncodeError),
    /// The id of the sandbox cannot be part of a path.
    #[error("use the sandbox's id: {0}")]
    SandboxId(crate::sandbox_id::InvalidSandboxId),
    /// The image of the transport `file` cannot be put or removed.
    #[error("keep the configuration image at {}: {fault}", path.display())]
    SharedImage {
        /// The file or the directory that is in the way.
        path: PathBuf,
        /// Why.
        fault: FileFault,
    },
    /// The sandbox has no image that can change.
    #[error(
        "update the sandbox's configuration: there is no image at {} and no process that serves \
        one; {}",
        path.display(),
        why_nothing(*transport)
    )]
    NothingToUpdate {
        /// Where its file would be.
        path: PathBuf,
        /// The transport of the settings, where they were read.
        transport: Option<Transport>,
    },
    /// The new document does not fit the disk.
    #[error(
        "update the sandbox's configuration: the new image has {used} bytes, the disk {capacity}; \
        shorten the document, or start the sandbox anew with a larger capacity in the settings or \
        of attach"
    )]
    UpdateTooLarge {
        /// The size of the image.
        used: usize,
        /// The size of the disk.
        capacity: usize,
    },
    /// The new document is an empty file.
    #[error(
        "update from {}: it is empty; give --empty to take the configuration away",
        path.display()
    )]
    UpdateEmpty {
        /// The document.
        path: PathBuf,
    },
    /// The sandbox has a file and a serving process.
    #[error(
        "update the sandbox's configuration: it has the file {} and a process that serves a disk, \
        and only one is what its guest reads; remove the file or end the process",
        path.display()
    )]
    UpdateTwice {
        /// The file.
        path: PathBuf,
    },
    /// Another update holds the lock.
    #[error("update {}: another update has been at it for {} s; try \
    again", path.display(), within.as_secs())]
    UpdateBusy {
        /// The image.
        path: PathBuf,
        /// How long was waited.
        within: Duration,
    },
    /// An update could not be finished.
    #[error("update {}: {source}; until an update succeeds the guest may refuse the \
    disk", path.display())]
    UpdateTorn {
        /// The image.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process that serves the disk has not taken the update.
    #[error(transparent)]
    UpdateServed(memory_disk::update::UpdateError),
    /// No loop device could be bound.
    #[error("attach a loop device: {0}")]
    LoopDevice(io::Error),
    /// The wrapper's device cannot be made with the transport.
    #[error(
        "attach the configuration disk: the transport \"{transport}\" is not one of the wrapper"
    )]
    WrapperTransport {
        /// Its name.
        transport: &'static str,
    },
    /// A command that ends cannot keep what it attached.
    #[error(
        "attach by the transport \"{transport}\": it ends with this process; give --hold, and keep \
        standard input open until the hypervisor has the disk"
    )]
    HoldNeeded {
        /// Its name.
        transport: &'static str,
    },
    /// Nothing has to be kept.
    #[error("attach by the transport \"{transport}\" with --hold: there is nothing to hold")]
    HoldUseless {
        /// Its name.
        transport: &'static str,
    },
    /// A vhost-user device is served by a process that can do nothing else.
    #[error(
        "attach by the transport \"vhost-user\": it takes a process of its own; run kata-configdev \
        attach"
    )]
    ServerNeeded,
    /// `--socket` and `--once` belong to one transport.
    #[error(
        "attach by the transport \"{transport}\": --socket and --once are for \"vhost-user\" only"
    )]
    SocketUseless {
        /// The transport.
        transport: &'static str,
    },
    /// `--socket` is missing.
    #[error("attach by the transport \"vhost-user\": give the socket's path with --socket")]
    SocketNeeded,
    /// The socket cannot be made.
    #[error("listen at {}: {source}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The vhost-user device failed.
    #[error(transparent)]
    Serve(memory_disk::Error),
    /// What lives on the node cannot be seen.
    #[error("look for living sandboxes: {0}")]
    Living(io::Error),
    /// No anonymous file could be made.
    #[error("put the configuration image into memory: {0}")]
    Memory(io::Error),
    /// QEMU cannot be executed.
    #[error("execute {}: {source}", path.display())]
    Exec {
        /// The configured path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that a command was given cannot be read.
    #[error("read {}: {fault}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: FileFault,
    },
    /// A file of manifests is none.
    #[error("read {}: {reason}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The secrets for a placeholder cannot be combined.
    #[error("combine the secrets: {0}")]
    Combine(credential_sources::secretgen::CombineError),
    /// The namespace is not clear.
    #[error("combine the secrets: {rule}; give --namespace")]
    CombineNamespace {
        /// What the manifests say.
        rule: &'static str,
    },
    /// The argument is no image's reference. It is not repeated: it may be a URL with a password.
    #[error("read the image's reference: {0}")]
    ImageReference(String),
    /// A file that a command was given is not an image.
    #[error("read the image {}: {}", path.display(), with_sources(source))]
    Image {
        /// The file.
        path: PathBuf,
        /// Why.
        source: config_image::DecodeError,
    },
    /// A file begins with none of the known magics.
    #[error("read the image {}: {}", path.display(), unknown_magic(*found))]
    UnknownMagic {
        /// The file.
        path: PathBuf,
        /// What stands at offset 0, where that is a magic at all.
        found: Option<config_image::Magic>,
    },
    /// The output would replace the document.
    #[error("write {}: it is the document that is to be packed", path.display())]
    OutputIsDocument {
        /// The output.
        path: PathBuf,
    },
    /// The output is something that must not be replaced.
    #[error("write {}: it exists and is not a regular file", path.display())]
    OutputNotRegular {
        /// The output.
        path: PathBuf,
    },
    /// The outcome cannot be printed. The only failure of input or output that `?` turns into an
    /// [`Error`] by itself.
    #[error("print the outcome: {0}")]
    Print(#[from] io::Error),
    /// The output cannot be written.
    #[error("write {}: {source}", path.display())]
    Output {
        /// The output.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// The exit code of a program that ends with this error.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::OutputIsDocument { .. }
            | Self::CombineNamespace { .. }
            | Self::ImageReference(_)
            | Self::SandboxId(_)
            | Self::HoldNeeded { .. }
            | Self::HoldUseless { .. }
            | Self::SocketNeeded
            | Self::SocketUseless { .. } => exit::USAGE,
            Self::SharedImage { .. }
            | Self::NothingToUpdate { .. }
            | Self::UpdateTwice { .. }
            | Self::UpdateBusy { .. }
            | Self::UpdateTorn { .. }
            | Self::UpdateServed(_)
            | Self::LoopDevice(_)
            | Self::Socket { .. }
            | Self::Serve(_) => exit::UNAVAILABLE,
            Self::Exec { .. } | Self::Output { .. } | Self::Print(_) => exit::UNAVAILABLE,
            Self::Memory(_) | Self::Living(_) => exit::INTERNAL,
            _ => exit::DATA,
        }
    }

    /// What the reader can do about it, for errors that end a sandbox.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::SettingsFile { .. } | Self::SettingsText { .. } => {
                "correct this file on the node; the project's docs/configuration.md describes its \
                keys"
            }
            Self::QemuIsWrapper { .. } | Self::Exec { .. } => {
                "set qemu in the wrapper's settings to the real QEMU binary"
            }
            Self::SpecFile(_) | Self::SpecText { .. } => {
                "the container engine writes this file; look at its log"
            }
            Self::AnnotationPath(_) => {
                "name a file below a directory that annotation-allow in the wrapper's settings \
                lists, \
                 or leave the value empty for no configuration"
            }
            Self::AnnotationDirectory { .. } => {
                "create this directory on the node or take it off annotation-allow in the \
                wrapper's settings"
            }
            Self::AnnotationFile { .. } | Self::NodeFile { .. } => {
                "the document must be a regular file of root that nobody else can write, reached \
                without links"
            }
            Self::NodePattern { .. } => {
                "put one document where the pattern finds it, or name it by its path in the \
                wrapper's settings"
            }
            Self::ProviderListing(_) => "correct this file, as the kubelet needs it, too",
            Self::ProviderRequest(_) => "let the kubelet start it",
            Self::Document { .. } => {
                "correct the document; kata-configdev check shows every problem, docs/document.md \
                every key"
            }
            Self::Machine { .. } => {
                "use a machine type of q35, pc, virt, pseries, microvm or s390-ccw-virtio"
            }
            Self::Pack(_) => "shorten the document",
            Self::SandboxId(_) => "start the sandbox with a plain id",
            Self::SharedImage { .. } => {
                "the directories below /run must belong to root, not be writable for others and be \
                no links"
            }
            Self::NothingToUpdate { .. } | Self::UpdateTwice { .. } => {
                "look at the sandbox's id and transport"
            }
            Self::UpdateTooLarge { .. } => "shorten the document",
            Self::UpdateEmpty { .. } => "give --empty",
            Self::UpdateBusy { .. } | Self::UpdateTorn { .. } | Self::UpdateServed(_) => {
                "update it again"
            }
            Self::LoopDevice(_) => "look at /dev/loop-control and the module loop",
            Self::WrapperTransport { .. } => {
                "set transport to \"memory\" or \"file\" in the wrapper's settings"
            }
            Self::HoldNeeded { .. } | Self::HoldUseless { .. } => "choose another transport",
            Self::ServerNeeded => "start kata-configdev attach for it",
            Self::SocketNeeded | Self::SocketUseless { .. } | Self::Socket { .. } => {
                "choose another socket or transport"
            }
            Self::Serve(_) => "look at the VMM's log; the guest's memory must be shared",
            Self::Living(_) => "run it as root",
            Self::Memory(_) => "look at the node's free memory and its log",
            Self::Manifest { .. } | Self::Combine(_) => "correct the manifests",
            Self::CombineNamespace { .. } => "name the namespace",
            Self::ImageReference(_) => "write it as registry.corp/team/app:tag",
            Self::Input { .. } | Self::Image { .. } | Self::UnknownMagic { .. } => {
                "look at the file"
            }
            Self::OutputIsDocument { .. }
            | Self::OutputNotRegular { .. }
            | Self::Output { .. }
            | Self::Print(_) => "choose another output",
        }
    }
}

fn why_nothing(transport: Option<Transport>) -> String {
    match transport {
        Some(transport @ (Transport::Memory | Transport::Loop)) => format!(
            "the transport of the settings, \"{}\", seals images: choose \"file\", \
            or \"vhost-user\" without the wrapper, for sandboxes whose credentials change",
            transport.name()
        ),
        Some(Transport::File | Transport::VhostUser) => {
            "look at the id, and whether the sandbox has a configuration".into()
        }
        None => "look at the id, whether the sandbox has a configuration, and its \
        transport: \"memory\" and \"loop\" seal images, \"file\" and \"vhost-user\" do not"
            .into(),
    }
}

fn at_line(line: usize) -> String {
    if line == 0 {
        String::new()
    } else {
        format!(":{line}")
    }
}

fn unknown_machine(machine: Option<&str>) -> String {
    machine.map_or_else(
        || "there is no -machine among the arguments".into(),
        |machine| format!("the machine type {machine:?} has no known virtio-blk device"),
    )
}

fn unknown_magic(found: Option<config_image::Magic>) -> String {
    let known = "expected the magic \"imgpullr\" or \"initdata\" at offset 0";
    found.map_or_else(
        || format!("{known}, found neither"),
        |magic| format!("{known}, found {:?}", magic.to_string()),
    )
}

/// How many problems an error line spells out; a whole broken document does not fit one line of a
/// log.
const MAX_PROBLEMS_ON_A_LINE: usize = 3;

/// The first problems of a document, on one line.
fn excerpt(problems: &Problems) -> String {
    let mut parts: Vec<String> = problems
        .iter()
        .take(MAX_PROBLEMS_ON_A_LINE)
        .map(ToString::to_string)
        .collect();
    let more = problems.iter().count() + problems.unlisted() - parts.len();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}

/// `error` and what caused it, as one phrase.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut phrase = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        phrase.push_str(": ");
        phrase.push_str(&cause.to_string());
        source = cause.source();
    }
    phrase
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use puller_config::{Document, MAX_PROBLEMS};

    use super::*;

    #[test]
    fn a_line_counts_the_problems_it_leaves_out() {
        let text: String = (0..MAX_PROBLEMS + 7)
            .map(|number| format!("key-{number} = 1\n"))
            .collect();
        let line = excerpt(&Document::parse(text.as_bytes()).unwrap_err());
        assert!(line.contains("key-2: "), "{line}");
        assert!(line.ends_with("; and 1004 more"), "{line}");
    }

    /// A remedy once sent its reader to a page that had never been written.
    #[test]
    fn remedies_name_pages_that_exist() {
        let source = include_str!("error.rs");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = 0;
        for word in source.split(|end: char| end.is_whitespace() || "\",;\\".contains(end)) {
            if word.len() > 3 && word.ends_with(".md") {
                assert!(root.join(word).is_file(), "{word}");
                pages += 1;
            }
        }
        assert!(pages >= 2, "only {pages} pages");
    }
}
