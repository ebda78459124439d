//! Which document a sandbox gets, and its content.

mod annotation;
mod by_namespace;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use registry_config::MAX_DOCUMENT_BYTES;
use zeroize::Zeroizing;

use crate::document_pattern::{self, PatternFault};
use crate::host_file::{FileError, FileFault, HostFile};
use crate::namespace::{Namespace, NamespaceFault};
use crate::namespace_path::{NamespacePaths, apart};
use crate::node_root::NodeRoot;
use crate::sandbox_document::ChosenBy;
use crate::sandbox_spec::{ANNOTATION, Pod};
use crate::settings::Settings;

pub use self::annotation::{PathFault, annotated};
pub use self::by_namespace::{document_in, fallback, namespaces, of_namespace, over_base};

/// The file chosen for a sandbox: where it stands on the node and what it says, not yet parsed.
#[derive(Debug)]
pub struct DocumentFile {
    /// The file's path, for messages.
    pub path: PathBuf,
    /// The file's bytes, zeroed when dropped.
    pub text: DocumentText,
    /// Who chose it.
    pub chosen_by: ChosenBy,
    /// The pod's namespace, where the choice depends on it.
    pub namespace: Option<Namespace>,
    /// The missing document of the pod's namespace, in whose place this one stands.
    pub instead_of: Option<PathBuf>,
    /// The document that the pod's namespace has until its own one is there.
    pub fallback: Option<PathBuf>,
}

/// The bytes of a document. Holds secrets, so that its `Debug` says nothing of them.
#[derive(Clone)]
pub struct DocumentText(Zeroizing<Vec<u8>>);

impl std::ops::Deref for DocumentText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Zeroizing<Vec<u8>>> for DocumentText {
    fn from(text: Zeroizing<Vec<u8>>) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for DocumentText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DocumentText([redacted], {} bytes)", self.len())
    }
}

/// Why no document can be chosen, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// The annotation's value is refused for its form.
    #[error("use the annotation {ANNOTATION}: {0}")]
    AnnotationPath(#[from] PathFault),
    /// A directory of the allow-list cannot be opened.
    #[error("use the annotation {ANNOTATION}: open the allowed directory {}: {source}",
    directory.display())]
    AnnotationDirectory {
        /// The directory, as the settings name it.
        directory: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The file that the annotation names is refused.
    #[error("use the annotation {ANNOTATION}: {0}")]
    AnnotationFile(FileError),
    /// By links, one of these two directories contains the other, and one is by namespace.
    #[error("use the annotation {ANNOTATION}: {}", apart(.0, .1))]
    Overlap(PathBuf, PathBuf),
    /// The pod's namespace is not known.
    #[error(transparent)]
    Namespace(#[from] NamespaceFault),
    /// The settings have something by namespace, and do not say who writes specs.
    #[error("find the pod's namespace: the settings do not name the container engine")]
    NoEngine,
    /// The directory of the namespaces' documents cannot be used.
    #[error("read the documents of the namespaces in {0}")]
    NamespaceDirectory(FileError),
    /// The pod's namespace has no document.
    #[error("read the document of the namespace {namespace}: there is no {}", path.display())]
    NoDocument {
        /// The namespace.
        namespace: Namespace,
        /// Where its document would be.
        path: PathBuf,
    },
    /// The document of the pod's namespace is refused.
    #[error("read the document of the pod's namespace {0}")]
    NamespaceFile(FileError),
    /// What completes the documents of the namespaces cannot do so.
    #[error("complete the document of the pod's namespace by {}: {why}", path.display())]
    Base {
        /// The base, as the settings name it.
        path: PathBuf,
        /// What is wrong with it, or with both together.
        why: String,
    },
    /// The node's own document is refused.
    #[error("read the node's document {0}")]
    NodeFile(FileError),
    /// The pattern for the node's own document does not stand for one file.
    #[error("find the node's document {}: {fault}", pattern.display())]
    NodePattern {
        /// The pattern, as the settings have it.
        pattern: PathBuf,
        /// Why it does not.
        fault: PatternFault,
    },
}

impl ChoiceError {
    /// Whether it is about what the pod's annotation or its spec says.
    #[must_use]
    pub const fn is_of_pod(&self) -> bool {
        match self {
            Self::AnnotationPath(_)
            | Self::AnnotationDirectory { .. }
            | Self::AnnotationFile(_)
            | Self::Namespace(_) => true,
            Self::NodeFile(_)
            | Self::NodePattern { .. }
            | Self::Overlap(..)
            | Self::NoEngine
            | Self::NamespaceDirectory(_)
            | Self::NoDocument { .. }
            | Self::Base { .. }
            | Self::NamespaceFile(_) => false,
        }
    }

    /// Whether the document that the settings name is simply not there.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            Self::NodeFile(error) | Self::NamespaceDirectory(error) => error.fault.is_absent(),
            Self::NodePattern { fault, .. } => matches!(fault, PatternFault::NoMatch),
            Self::NoDocument { .. } => true,
            Self::AnnotationPath(_)
            | Self::AnnotationDirectory { .. }
            | Self::AnnotationFile(_)
            | Self::Overlap(..)
            | Self::Namespace(_)
            | Self::NoEngine
            | Self::Base { .. }
            | Self::NamespaceFile(_) => false,
        }
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        if let Self::NodeFile(error) = self
            && error.fault.is_absent()
        {
            return "put it there, or take document out of the wrapper's settings";
        }
        match self {
            Self::AnnotationFile(error) if error.fault.is_absent() => {
                "put it there, or correct the annotation"
            }
            Self::AnnotationFile(error) | Self::NamespaceFile(error) | Self::NodeFile(error)
                if matches!(error.fault, FileFault::TooLong(_)) =>
            {
                error.remedy()
            }
            Self::AnnotationPath(_) => {
                "name a file below a directory that annotation-allow in the wrapper's settings \
                lists, or leave the value empty for no configuration"
            }
            Self::AnnotationDirectory { .. } => {
                "create this directory on the node or take it off annotation-allow in the \
                wrapper's settings"
            }
            Self::AnnotationFile(_) | Self::NamespaceFile(_) => {
                "the document must be a regular file of root that nobody else can write, reached \
                without links"
            }
            Self::NodeFile(_) => {
                "the document must be a regular file of root that nobody else can write"
            }
            Self::Overlap(..) => "let no link on the node lead from one of them to the other",
            Self::Namespace(fault) => fault.remedy(),
            Self::NoEngine => {
                "set engine in the wrapper's settings to what starts the node's containers, \
                \"containerd\" or \"cri-o\""
            }
            Self::NamespaceDirectory(_) => {
                "make it a directory of root that nobody else can write, with one document for \
                each namespace"
            }
            Self::NoDocument { .. } => {
                "put the document of this namespace there, or name what namespaces without one \
                get by namespace-fallback in the wrapper's settings"
            }
            Self::Base { .. } => {
                "correct it; `kata-configdev check` shows every problem, and namespace-base in the \
                wrapper's settings names it"
            }
            Self::NodePattern { .. } => {
                "put one document where the pattern finds it, or name it by its path in the \
                wrapper's settings"
            }
        }
    }
}

impl DocumentFile {
    /// A document of the node that says `text`.
    fn of_node(path: &Path, text: DocumentText) -> Self {
        Self {
            path: path.into(),
            text,
            chosen_by: ChosenBy::Node,
            namespace: None,
            instead_of: None,
            fallback: None,
        }
    }

    /// A document that says nothing, on whose behalf `path` speaks in messages: what credential
    /// providers offer is all that it will have.
    #[must_use]
    pub fn empty(path: &Path) -> Self {
        Self {
            chosen_by: ChosenBy::Providers,
            ..Self::of_node(path, Zeroizing::new(Vec::new()).into())
        }
    }
}

/// Chooses the document: the one that the pod's annotation names, else that of its namespace or of
/// the node, else none.
///
/// The paths of the settings and the allow-list are the administrator's. The annotation is written
/// by a less trusted party: its path must lie below a directory of the allow-list, and the kernel
/// resolves it there without following links. An empty annotation asks for no disk. The namespace
/// is what the container engine wrote, and nothing is opened before it is known. Where the document
/// of the settings is not there, [`Settings::missing_document`] may have words for the guest.
///
/// # Errors
///
/// [`ChoiceError`].
pub fn choose(
    node: &NodeRoot,
    settings: &Settings,
    pod: &Pod,
) -> Result<Option<DocumentFile>, ChoiceError> {
    let paths = NamespacePaths::of(settings);
    match (pod.document.as_deref(), &settings.document) {
        (Some(""), _) | (None, None) => Ok(None),
        (Some(value), _) => {
            let namespace = match paths.key() {
                Some(_) => Some(namespace(settings, pod)?),
                None => None,
            };
            annotated(node, &paths, value, namespace).map(Some)
        }
        (None, Some(path)) => match &paths.document {
            Some(paths) => of_namespace(node, settings, paths, &namespace(settings, pod)?),
            None => of_node_or_instead(node, settings, path).map(Some),
        },
    }
}

/// The pod's namespace, by the word of the engine in the settings.
///
/// # Errors
///
/// [`ChoiceError::NoEngine`], [`ChoiceError::Namespace`].
pub fn namespace(settings: &Settings, pod: &Pod) -> Result<Namespace, ChoiceError> {
    let engine = settings.engine.ok_or(ChoiceError::NoEngine)?;
    Ok(pod.namespace(engine)?)
}

/// What the settings put in the place of their document where its file is not there. A file that
/// cannot be used is an error all the same: it would not become right by waiting.
fn instead(settings: &Settings, error: ChoiceError) -> Result<DocumentText, ChoiceError> {
    match &settings.missing_document {
        Some(reason) if error.is_absence() => {
            Ok(Zeroizing::new(reason.to_document().into_bytes()).into())
        }
        _ => Err(error),
    }
}

fn of_node_or_instead(
    node: &NodeRoot,
    settings: &Settings,
    path: &Path,
) -> Result<DocumentFile, ChoiceError> {
    of_node(node, path).or_else(|error| {
        let text = instead(settings, error)?;
        Ok(DocumentFile::of_node(path, text))
    })
}

fn of_node(node: &NodeRoot, path: &Path) -> Result<DocumentFile, ChoiceError> {
    let path = resolve(node, path)?;
    let opened = node.open_file(&path);
    let text =
        opened.and_then(read_document).map_err(|fault| ChoiceError::NodeFile(fault.at(&path)))?;
    Ok(DocumentFile::of_node(&path, text))
}

/// [`document_pattern::resolve`], for the node's document.
///
/// # Errors
///
/// [`ChoiceError::NodePattern`].
pub fn resolve(node: &NodeRoot, path: &Path) -> Result<PathBuf, ChoiceError> {
    let found = document_pattern::resolve(node, path);
    found.map_err(|fault| ChoiceError::NodePattern { pattern: path.into(), fault })
}

fn read_document(file: HostFile) -> Result<DocumentText, FileFault> {
    let text = file.require_administered()?.read(MAX_DOCUMENT_BYTES)?;
    Ok(text.into())
}
