//! What can go wrong in a command, and what to do about it.

use std::io;
use std::path::PathBuf;

use credential_sources::secretgen::CombineError;
use registry_config::NodeError;

use crate::choice::ChoiceError;
use crate::host_file::{FileError, FileFault};
use crate::providers::ListingFault;
use crate::sandbox_spec::SpecError;
use crate::settings::SettingsError;
use crate::shared_image::SharedImageError;
use crate::sweep::SweepError;
use crate::update::UpdateError;
use crate::{SandboxError, exit};

/// Why a command fails, as a fragment that fits after "failed to". Never holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The arguments contradict each other, or the files that they name.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// What the command does for a sandbox fails as in the wrapper.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The configuration of a sandbox is not updated.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The new document of an update is an empty file.
    #[error("update from {}: it is empty", .0.display())]
    UpdateEmpty(PathBuf),
    /// Images of dead sandboxes are not removed.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// The kubelet's configuration of its credential providers cannot be used.
    #[error("read the kubelet's credential providers: {0}")]
    ProviderListing(#[from] ListingFault),
    /// The kubelet's question is not understood; with the broken rule.
    #[error("understand the kubelet's question: {0}")]
    ProviderRequest(String),
    /// The settings ask no credential providers.
    #[error("ask credential providers: the settings name no registries to ask them about")]
    NoProviders,
    /// The node's document is a reason why there is none.
    #[error("answer from {}: the node says: {reason}", path.display())]
    NodeError {
        /// The document.
        path: PathBuf,
        /// The node's words.
        reason: NodeError,
    },
    /// The socket of a vhost-user device cannot be made.
    #[error("listen at {}: {source}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The vhost-user device failed.
    #[error(transparent)]
    Serve(#[from] memory_disk::Error),
    /// A file that the command was given cannot be read.
    #[error("read {0}")]
    Input(#[from] FileError),
    /// A file does not hold manifests of Kubernetes.
    #[error("read {}: {reason}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The broken rule.
        reason: String,
    },
    /// The secrets for a placeholder cannot be combined.
    #[error("combine the secrets: {0}")]
    Combine(#[from] CombineError),
    /// A file that the command was given is not an image.
    #[error("read the image {}: {}", path.display(), with_sources(source))]
    Image {
        /// The file.
        path: PathBuf,
        /// The broken rule of the format.
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
    /// `new` finds no certificates in a file.
    #[error("read the certificates {}: {reason}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The password on standard input is none.
    #[error("read the password from standard input: it {0}")]
    Password(&'static str),
    /// The registry cannot be added to a document.
    #[error("add the registry to the document: {reason}")]
    NewEntry {
        /// Why not.
        reason: String,
        /// Whether the document has an entry for it.
        is_there: bool,
    },
    /// The output exists and must not be replaced.
    #[error("write {}: it exists and is not a regular file", .0.display())]
    OutputNotRegular(PathBuf),
    /// The output cannot be written.
    #[error("write {0}")]
    Output(FileError),
    /// The guest's puller cannot be started, which asks the registries.
    #[error("ask the registries by the program imagepuller: {source}")]
    Puller {
        /// What the kernel says.
        source: io::Error,
    },
    /// A program of the node does not say what is asked of it.
    #[error("ask {program}: {why}")]
    Program {
        /// Its name.
        program: &'static str,
        /// Why not.
        why: String,
    },
    /// The outcome cannot be printed. The only failure of input or output that `?` turns into a
    /// [`CommandError`] by itself.
    #[error("print the outcome: {0}")]
    Print(#[from] io::Error),
}

/// Why arguments are wrong that the parser of the command line accepts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The disk of the transport of this name ends with the process that attaches it.
    #[error("attach by the transport \"{0}\": its disk ends with this process")]
    HoldNeeded(&'static str),
    /// The disk of the transport of this name needs no process to hold it.
    #[error("attach by the transport \"{0}\" with --hold: there is nothing to hold")]
    HoldUseless(&'static str),
    /// `--socket` is missing.
    #[error("attach by the transport \"vhost-user\": it has no path for the socket")]
    SocketNeeded,
    /// `--socket` or `--once` is given for the transport of this name.
    #[error("attach by the transport \"{0}\": --socket and --once are for \"vhost-user\" only")]
    SocketUseless(&'static str),
    /// The output of `pack` would replace the document.
    #[error("write {}: it is the document that is to be packed", .0.display())]
    OutputIsDocument(PathBuf),
    /// The manifests do not say which namespace is meant.
    #[error("combine the secrets: {0}")]
    CombineNamespace(&'static str),
    /// An argument is not an image reference; with the broken rule, not the argument, which may be
    /// a URL with a password.
    #[error("read the image's reference: {0}")]
    ImageReference(String),
    /// `check --ask` of what is no file, such as a pipe.
    #[error("ask by {}: it is no file, and imagepuller reads it again", .0.display())]
    AskedTwice(PathBuf),
    /// The settings have a document for each namespace, and no namespace is known.
    #[error("answer the kubelet: {} is a document for each namespace", .0.display())]
    WhoseDocument(PathBuf),
    /// `explain` without `--config`, and the settings name no document for all pods.
    #[error("explain by {}: it names no document that all pods get", .0.display())]
    NoDocument(PathBuf),
    /// `explain` with `--config` of no sandbox, and the settings, which say nothing of it.
    #[error("explain a document by itself: --settings says nothing of it")]
    SettingsUseless,
    /// `check --ask` with more than one document; the second.
    #[error("ask by several documents: {} is a file, not an image", .0.display())]
    AskBySeveral(PathBuf),
    /// Standard input is named twice.
    #[error("read standard input twice: \"-\" stands there more than once")]
    StandardInputTwice,
    /// `--registry` is no name of one; with the broken rule, not the argument, which may be a URL
    /// with a password.
    #[error("read the registry's name: {0}")]
    RegistryName(String),
    /// What `detach --socket` names is something else.
    #[error("remove {}: it is no socket", .0.display())]
    NoSocket(PathBuf),
    /// The output of `new` or of an import is there.
    #[error("write {}: it exists already", .0.display())]
    OutputExists(PathBuf),
    /// No service is the node's container runtime, or more than one.
    #[error("find the node's container runtime: {0}")]
    WhichService(String),
    /// Standard output is redirected to the file of `--into` or of `--output`.
    #[error("write {}: it is standard output too, and the shell has emptied it", .0.display())]
    OutputEmptied(PathBuf),
}

impl UsageError {
    /// What the reader can do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::HoldNeeded(_) => {
                "give --hold, and keep standard input open until the hypervisor has the disk"
            }
            Self::HoldUseless(_) => "leave --hold out",
            Self::SocketNeeded => "give it with --socket",
            Self::SocketUseless(_) => "leave them out, or give --transport vhost-user",
            Self::OutputIsDocument(_) => "give --output another path",
            Self::CombineNamespace(_) => "give --namespace",
            Self::ImageReference(_) => "write it as in registry.corp/team/app:tag",
            Self::AskedTwice(_) => "write it to a file in memory (/dev/shm) with mode 0600",
            Self::WhoseDocument(_) => "name the document that the kubelet pulls with by --config",
            Self::NoDocument(_) => {
                "name the document by --config, or the bundle of a pod's sandbox by --sandbox"
            }
            Self::SettingsUseless => "leave --settings or --config out",
            Self::AskBySeveral(_) => "give --ask one document, and images behind it",
            Self::RegistryName(_) => "write it as in registry.corp:5000 or quay.io/team",
            Self::NoSocket(_) => "give the path that attach --socket was given",
            Self::OutputExists(_) => "give another path, or --force to replace it",
            Self::OutputEmptied(_) => {
                "put back what was in it, and leave the redirection out: the file is written \
                without it"
            }
            Self::StandardInputTwice => "give it once",
            Self::WhichService(_) => "name its service by --unit",
        }
    }
}

impl CommandError {
    /// A file was not written.
    pub(super) fn output(error: FileError) -> Self {
        match error.fault {
            FileFault::NotRegular => Self::OutputNotRegular(error.path),
            _ => Self::Output(error),
        }
    }

    /// The exit code of the command.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Sandbox(error) => error.exit_code(),
            Self::Update(error) => error.exit_code(),
            Self::Sweep(error) => error.exit_code(),
            Self::UpdateEmpty(_)
            | Self::ProviderListing(_)
            | Self::ProviderRequest(_)
            | Self::NoProviders
            | Self::NodeError { .. }
            | Self::Input(_)
            | Self::Manifest { .. }
            | Self::Combine(_)
            | Self::Image { .. }
            | Self::UnknownMagic { .. }
            | Self::Certificates { .. }
            | Self::Password(_)
            | Self::NewEntry { .. }
            | Self::OutputNotRegular(_) => exit::DATA,
            Self::Socket { .. }
            | Self::Serve(_)
            | Self::Output(_)
            | Self::Puller { .. }
            | Self::Program { .. }
            | Self::Print(_) => exit::UNAVAILABLE,
        }
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Usage(error) => error.remedy(),
            Self::Sandbox(error) => error.remedy(),
            Self::Update(error) => error.remedy(),
            Self::Sweep(error) => error.remedy(),
            Self::UpdateEmpty(_) => "give --empty to take the configuration away",
            Self::ProviderListing(_) => {
                "correct it, because the kubelet cannot use it either, or change \
                credential-providers in the settings"
            }
            Self::ProviderRequest(_) => {
                "write a CredentialProviderRequest to standard input, as the kubelet does"
            }
            Self::NoProviders => {
                "write registries = \"matchImages\" or a list into [credential-providers]"
            }
            Self::NodeError { .. } => "put a document with registries in its place",
            Self::Socket { .. } => {
                "give --socket a path in an existing directory at which nothing is yet"
            }
            Self::Serve(_) => "look at the VMM's log; it has to share the guest's memory",
            Self::Input(error) | Self::Output(error) => error.remedy(),
            Self::Manifest { .. } => "give manifests as kubectl get -o yaml prints them",
            Self::Combine(_) => "change these objects in the cluster, or leave their files out",
            Self::Image { .. } | Self::UnknownMagic { .. } => {
                "give a file that kata-configdev pack wrote, or one with Kata's initdata"
            }
            Self::Certificates { .. } => {
                "give a file with PEM certificates; `openssl x509 -inform der -in FILE` makes one \
                of a binary one"
            }
            Self::Password(_) => "write it to standard input, as in `pass show NAME | ...`",
            Self::NewEntry { is_there: true, .. } => {
                "change that entry with an editor, or leave --into out"
            }
            Self::NewEntry { .. } => "correct --user, the password or --ca",
            Self::OutputNotRegular(_) => "give the path of a regular file or of none",
            Self::Puller { .. } => {
                "put it beside this program or into PATH, or run imagepuller probe where it is; \
                without --ask, nothing needs a network"
            }
            Self::Program { .. } => {
                "let systemctl show NAME and containerd config dump print to files where they \
                work, and name these by --shown and --dump"
            }
            Self::Print(_) => "give a standard output that can be written to",
        }
    }
}

/// What fails for a sandbox, in a command.
macro_rules! of_sandbox {
    ($($error:ty)*) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                SandboxError::from(error).into()
            }
        })*
    };
}
of_sandbox!(SettingsError SpecError ChoiceError SharedImageError);

fn unknown_magic(found: Option<config_image::Magic>) -> String {
    let known = "expected the magic \"imgpullr\" or \"initdata\" at offset 0";
    found.map_or_else(
        || format!("{known}, found neither"),
        |magic| format!("{known}, found {:?}", magic.to_string()),
    )
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
