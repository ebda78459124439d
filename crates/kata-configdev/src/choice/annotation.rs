//! The document that a pod names by its annotation.

use std::path::{Component, Path, PathBuf};

use super::{ChoiceError, DocumentFile, read_document};
use crate::host_file::HostFile;
use crate::namespace::Namespace;
use crate::namespace_path::{Allowed, NamespacePaths};
use crate::node_root::NodeRoot;
use crate::sandbox_document::ChosenBy;

/// The longest path in an annotation: what the kernel accepts, without its final zero byte.
const MAX_PATH_BYTES: usize = 4095;

/// Why the path in an annotation is not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// Relative, or not a path at all. The value is not repeated: it may be a whole document pasted
    /// in by mistake.
    #[error("its value is not an absolute path")]
    NotAbsolute,
    /// Longer than any path the kernel accepts.
    #[error("its value is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
    /// Line breaks and the like, which no honest path has.
    #[error("its value has control characters")]
    ControlCharacter,
    /// A part is `..`.
    #[error("its value has \"..\" in it")]
    ParentDirectory,
    /// Below no directory of the allow-list.
    #[error(
        "{} is not below a directory of annotation-allow{}", path.display(),
        of_namespace(namespace.as_ref())
    )]
    NotAllowed {
        /// The path.
        path: PathBuf,
        /// The pod's namespace, where the allow-list depends on it.
        namespace: Option<Namespace>,
    },
}

fn of_namespace(namespace: Option<&Namespace>) -> String {
    namespace.map_or_else(String::new, |name| format!(" for the namespace {name}"))
}

/// Opens the document that the annotation of a pod in `namespace` names. The namespace is known
/// where anything of `paths` is by namespace.
///
/// # Errors
///
/// [`ChoiceError`].
pub fn annotated(
    node: &NodeRoot,
    paths: &NamespacePaths,
    value: &str,
    namespace: Option<Namespace>,
) -> Result<DocumentFile, ChoiceError> {
    let (directory, rest) = place(&paths.allowed, value, namespace.as_ref())?;
    // The settings were read without a look at links. These are the administrator's, and stay.
    if paths.key().is_some()
        && let Some([one, other]) = paths.overlap(|path| node.real(path).ok())
    {
        return Err(ChoiceError::Overlap(one, other));
    }
    let root = node.directory(directory).map_err(|fault| ChoiceError::AnnotationDirectory {
        directory: directory.into(),
        source: fault.into(),
    })?;
    let path = directory.join(&rest);
    let text = HostFile::open_beneath(&root, &rest)
        .and_then(read_document)
        .map_err(|fault| ChoiceError::AnnotationFile(fault.at(&path)))?;
    Ok(DocumentFile {
        path,
        text,
        chosen_by: ChosenBy::Pod,
        namespace,
        instead_of: None,
        fallback: None,
    })
}

/// Splits `value` into a directory of the administrator and the path from there, in which no link
/// is followed. It must lie below an allowed directory; the longest counts where several fit. Of
/// the directories by namespace only that of `namespace` is one, and its own name is already part
/// of the path.
///
/// Only the form of the path is looked at; what the names lead to is the kernel's answer when it
/// opens them.
pub(super) fn place<'a>(
    allowed: &'a [Allowed],
    value: &str,
    namespace: Option<&Namespace>,
) -> Result<(&'a Path, PathBuf), PathFault> {
    let path = Path::new(value);
    if value.len() > MAX_PATH_BYTES {
        return Err(PathFault::TooLong);
    }
    if !path.is_absolute() {
        return Err(PathFault::NotAbsolute);
    }
    if value.chars().any(char::is_control) {
        return Err(PathFault::ControlCharacter);
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(PathFault::ParentDirectory);
    }
    let below = |entry: &'a Allowed| {
        let (name, directory) = match entry {
            Allowed::Shared(directory) => (String::new(), directory.clone()),
            Allowed::ByNamespace(paths) => (paths.name(namespace?), paths.path(namespace?)),
        };
        let rest = path.strip_prefix(&directory).ok()?;
        let parts = rest.components().count();
        (parts > 0).then(|| (entry.directory(), Path::new(&name).join(rest), parts))
    };
    let found = allowed.iter().filter_map(below);
    found
        .min_by_key(|(.., parts)| *parts)
        .map(|(directory, rest, _)| (directory, rest))
        .ok_or_else(|| PathFault::NotAllowed { path: path.into(), namespace: namespace.cloned() })
}
