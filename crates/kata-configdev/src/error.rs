//! Why a sandbox gets no configuration disk, and what to do about it.

use std::io;
use std::path::PathBuf;

use registry_config::Problems;

use crate::choice::ChoiceError;
use crate::exit;
use crate::host_file::{MORE_FILES, is_out_of_files};
use crate::sandbox_id::InvalidSandboxId;
use crate::sandbox_spec::SpecError;
use crate::settings::SettingsError;
use crate::shared_image::SharedImageError;

/// Everything that Kata's log may say when a sandbox fails, as a fragment that fits after "failed
/// to". Never holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The settings name this very program as QEMU.
    #[error("start QEMU: {} is this wrapper itself", .0.display())]
    QemuIsWrapper(PathBuf),
    /// The sandbox's spec cannot be used.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The sandbox has no spec, and the settings do not say what that means; with the directory.
    #[error("find what the pod wants: {} has no config.json", .0.display())]
    NoSpec(PathBuf),
    /// The VM is a copy of another, and somebody names a document for its pod.
    #[error(
        "attach the configuration disk: the VM is a copy of one that has no such disk (-incoming), \
        but {0} for its pod"
    )]
    Copy(String),
    /// The VM is started for whatever pod takes it, and pods have documents on this node.
    #[error(
        "attach the configuration disk: the VM is started before its pod is known, as for a cache, \
        but the settings name a document or let pods name one"
    )]
    Cache,
    /// No document can be chosen.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The chosen document is not valid.
    #[error("accept the document {}: {}", path.display(), excerpt(problems))]
    Document {
        /// The document's file.
        path: PathBuf,
        /// Everything that is wrong with it.
        problems: Problems,
    },
    /// The machine type, `None` where the command line has none, is not known to take the disk.
    #[error("attach the configuration disk: {}", unknown_machine(.0.as_deref()))]
    Machine(Option<String>),
    /// The document does not fit into an image.
    #[error(transparent)]
    Pack(#[from] config_image::EncodeError),
    /// The id of the sandbox cannot be part of a path.
    #[error("use the sandbox's id: {0}")]
    SandboxId(#[from] InvalidSandboxId),
    /// The image of the transport `file` cannot be written or removed.
    #[error(transparent)]
    SharedImage(#[from] SharedImageError),
    /// The image does not get into an anonymous file.
    #[error("put the configuration image into memory: {0}")]
    Memory(io::Error),
    /// No loop device could be bound.
    #[error("attach a loop device: {0}")]
    LoopDevice(io::Error),
    /// The wrapper cannot attach a disk by the transport of this name.
    #[error("attach the configuration disk: the wrapper cannot use the transport \"{0}\"")]
    WrapperTransport(&'static str),
    /// A vhost-user device is served by a process that can do nothing else.
    #[error("attach by the transport \"vhost-user\": the disk needs a process of its own")]
    ServerNeeded,
    /// QEMU cannot be executed.
    #[error("execute {}: {source}", path.display())]
    Exec {
        /// QEMU, as the settings name it.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
}

impl SandboxError {
    /// The exit code of a program that ends with this error.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Settings(_)
            | Self::QemuIsWrapper(_)
            | Self::Spec(_)
            | Self::NoSpec(_)
            | Self::Copy(_)
            | Self::Cache
            | Self::Choice(_)
            | Self::Document { .. }
            | Self::Machine(_)
            | Self::Pack(_)
            | Self::WrapperTransport(_)
            | Self::ServerNeeded => exit::DATA,
            Self::SandboxId(_) => exit::USAGE,
            Self::SharedImage(_) | Self::LoopDevice(_) | Self::Exec { .. } => exit::UNAVAILABLE,
            Self::Memory(_) => exit::INTERNAL,
        }
    }

    /// What kind of cause it is, for who counts refusals: one of
    /// [`CAUSES`](crate::refusal::last::CAUSES).
    #[must_use]
    pub const fn cause(&self) -> &'static str {
        match self {
            Self::Settings(_) | Self::WrapperTransport(_) | Self::ServerNeeded => "settings",
            Self::QemuIsWrapper(_) | Self::Exec { .. } => "qemu",
            Self::Spec(_) | Self::NoSpec(_) | Self::Copy(_) | Self::Cache => "pod",
            Self::Choice(error) if error.is_of_pod() => "pod",
            Self::Choice(_) | Self::Document { .. } | Self::Pack(_) => "document",
            Self::Machine(_) | Self::SandboxId(_) => "machine",
            Self::SharedImage(_) | Self::Memory(_) | Self::LoopDevice(_) => "node",
        }
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Settings(error) => error.remedy(),
            Self::QemuIsWrapper(_) | Self::Exec { .. } => {
                "set qemu in the wrapper's settings to the real QEMU binary"
            }
            Self::Spec(error) => error.remedy(),
            Self::NoSpec(_) => {
                "set without-spec to \"node\" or \"none\" in the wrapper's settings if the \
                container engine writes none"
            }
            Self::Copy(_) => {
                "give the pod a runtime class without VM templates, or an empty annotation \
                io.katacontainers.config.runtime.imagepuller_config for no configuration"
            }
            Self::Cache => {
                "turn the cache off (vm_cache_number = 0 in the Go runtime's configuration), or \
                let another runtime class than the cache's have this wrapper; a VM of a pod is \
                started in its bundle"
            }
            Self::Choice(error) => error.remedy(),
            Self::Document { .. } => {
                "correct the document; kata-configdev check shows every problem, docs/document.md \
                every key"
            }
            Self::Machine(_) => {
                "use a machine type of q35, pc, virt, pseries, microvm or s390-ccw-virtio"
            }
            Self::Pack(_) => "remove entries and certificates that no pod needs from the document",
            Self::SandboxId(_) => "start the sandbox with an id of that form",
            Self::SharedImage(error) => error.remedy(),
            Self::Memory(error) if is_out_of_files(error) => MORE_FILES,
            Self::Memory(_) => "look at the node's free memory and its log",
            Self::LoopDevice(_) => {
                "load the kernel module loop and let this process open /dev/loop-control"
            }
            Self::WrapperTransport(_) => {
                "set transport to \"memory\" or \"file\" in the wrapper's settings"
            }
            Self::ServerNeeded => "run kata-configdev attach, which serves the disk",
        }
    }
}

fn unknown_machine(machine: Option<&str>) -> String {
    machine.map_or_else(
        || "there is no -machine among the arguments".into(),
        |machine| format!("the machine type {machine:?} has no known virtio-blk device"),
    )
}

/// How many problems an error line spells out; a whole broken document does not fit one line of a
/// log.
const MAX_PROBLEMS_ON_A_LINE: usize = 3;

/// The first problems of a document, on one line.
pub(crate) fn excerpt(problems: &Problems) -> String {
    let mut parts: Vec<String> =
        problems.iter().take(MAX_PROBLEMS_ON_A_LINE).map(ToString::to_string).collect();
    let more = problems.iter().count() + problems.unlisted() - parts.len();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use registry_config::{Document, MAX_PROBLEMS};

    use super::*;

    #[test]
    fn a_line_counts_the_problems_it_leaves_out() {
        let text: String =
            (0..MAX_PROBLEMS + 7).map(|number| format!("key-{number} = 1\n")).collect();
        let line = excerpt(&Document::parse(text.as_bytes()).unwrap_err());
        assert!(line.contains("key-2: "), "{line}");
        assert!(line.ends_with("; and 1004 more"), "{line}");
    }

    /// A remedy once sent its reader to a page that had never been written.
    #[test]
    fn remedies_name_pages_that_exist() {
        let source = concat!(
            include_str!("error.rs"),
            include_str!("settings/error.rs"),
            include_str!("update.rs"),
            include_str!("cli/error.rs"),
        );
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
