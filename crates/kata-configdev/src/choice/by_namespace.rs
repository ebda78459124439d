//! The document of a pod's namespace.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use linux_sys::rooted::Root;
use registry_config::{Checked, Document, Origin, Registry};
use zeroize::Zeroizing;

use super::{ChoiceError, DocumentFile, DocumentText, instead, of_node_or_instead, read_document};
use crate::error::excerpt;
use crate::host_file::{FileFault, HostFile, require_administered};
use crate::namespace::Namespace;
use crate::namespace_path::NamespacePath;
use crate::node_root::NodeRoot;
use crate::sandbox_document::ChosenBy;
use crate::settings::{NamespaceFallback, Settings};

/// The most files in the directory of the documents that are looked at. Free to change.
const MAX_DOCUMENTS: usize = 20_000;

/// Opens the document of `namespace`, [over the base](over_base) of the settings, or what the
/// settings say where it has none; `None` where that is nothing.
///
/// Links on the way to the directory are followed, because that path is the administrator's; the
/// document in it is no link, so that the name alone decides whose it is. A directory that is not
/// there at all was not filled yet: no namespace falls back.
///
/// # Errors
///
/// [`ChoiceError`].
pub fn of_namespace(
    node: &NodeRoot,
    settings: &Settings,
    paths: &NamespacePath,
    namespace: &Namespace,
) -> Result<Option<DocumentFile>, ChoiceError> {
    let path = paths.path(namespace);
    let own = |text, fallback| DocumentFile {
        path: path.clone(),
        text,
        chosen_by: ChosenBy::Namespace,
        namespace: Some(namespace.clone()),
        instead_of: None,
        fallback,
    };
    let error = match document_in(node, paths, namespace) {
        Ok(text) => {
            let Some(base) = &settings.namespace_base else {
                return Ok(Some(own(text, None)));
            };
            let failed = |why| ChoiceError::Base { path: base.clone(), why };
            let below = node.open_file(base).and_then(read_document);
            let below = below.map_err(|fault| failed(fault.to_string()))?;
            let whole = over_base(&text, &below).map_err(failed)?;
            return Ok(Some(own(whole.unwrap_or(text), None)));
        }
        Err(error) => error,
    };
    match (&error, &settings.namespace_fallback) {
        (ChoiceError::NoDocument { .. }, NamespaceFallback::None) => Ok(None),
        (ChoiceError::NoDocument { .. }, NamespaceFallback::Document(other)) => {
            Ok(Some(DocumentFile {
                chosen_by: ChosenBy::Fallback,
                namespace: Some(namespace.clone()),
                instead_of: Some(path),
                fallback: Some(other.clone()),
                ..of_node_or_instead(node, settings, other)?
            }))
        }
        (_, fallback) => {
            // Whether this namespace needs it shows when the directory has come.
            let later = match fallback {
                NamespaceFallback::Document(other) => Some(other.clone()),
                NamespaceFallback::Refuse | NamespaceFallback::None => None,
            };
            Ok(Some(own(instead(settings, error)?, later)))
        }
    }
}

/// What the document of a namespace says together with the base of all of them, which it need not
/// repeat; `None` where it stands alone: it is not valid, or says why there is none.
///
/// # Errors
///
/// What is wrong with the base, or with both together.
pub fn over_base(own: &[u8], base: &[u8]) -> Result<Option<DocumentText>, String> {
    let Ok(Checked { document: mut whole, .. }) = Document::parse(own) else {
        return Ok(None);
    };
    if whole.node_error.is_some() {
        return Ok(None);
    }
    let mut base = Document::parse(base).map_err(|problems| excerpt(&problems))?.document;
    if base.node_error.is_some() {
        return Err("it says why there is none".into());
    }
    for (name, _) in whole.registries.iter().filter(|(_, entry)| says_way(entry)) {
        if let Some(known) = base.registries.get(name) {
            let without = known.with_credentials_of(&Registry::default());
            base.registries.set(name.clone(), without);
        }
    }
    whole.complete(base, Origin::Host).map_err(|problems| excerpt(&problems))?;
    let mut text = whole.to_toml().map_err(|rule| rule.to_string())?;
    Ok(Some(Zeroizing::new(std::mem::take(&mut *text).into_bytes()).into()))
}

/// Whether a namespace says whom its guests ask and trust for a registry: then it gets no password
/// of the site, which it could have sent to a host of its choice.
fn says_way(entry: &Registry) -> bool {
    let has_roots = entry.ca_certs.is_some() || entry.ca_certs_uri.is_some();
    let is_weak = entry.insecure_skip_verify || entry.plain_http;
    has_roots || is_weak || !entry.mirrors.is_empty() || !entry.addresses.is_empty()
}

/// The document of namespaces that have none, where the settings name one.
///
/// # Errors
///
/// [`ChoiceError`].
pub fn fallback(node: &NodeRoot, settings: &Settings) -> Result<Option<DocumentFile>, ChoiceError> {
    match &settings.namespace_fallback {
        NamespaceFallback::Refuse | NamespaceFallback::None => Ok(None),
        NamespaceFallback::Document(other) => of_node_or_instead(node, settings, other).map(Some),
    }
}

/// The namespaces that have a document, by name.
///
/// # Errors
///
/// [`ChoiceError::NamespaceDirectory`].
pub fn namespaces(node: &NodeRoot, paths: &NamespacePath) -> Result<Vec<Namespace>, ChoiceError> {
    let names = node.names(paths.directory(), MAX_DOCUMENTS).map_err(|fault| {
        let fault = fault.at(paths.directory());
        ChoiceError::NamespaceDirectory(fault)
    })?;
    let mut found: Vec<_> = names.iter().filter_map(|name| paths.namespace_of_name(name)).collect();
    found.sort();
    Ok(found)
}

/// The document of `namespace` itself.
///
/// # Errors
///
/// [`ChoiceError::NamespaceDirectory`], [`ChoiceError::NoDocument`],
/// [`ChoiceError::NamespaceFile`].
pub fn document_in(
    node: &NodeRoot,
    paths: &NamespacePath,
    namespace: &Namespace,
) -> Result<DocumentText, ChoiceError> {
    let directory = open_directory(node, paths.directory())
        .map_err(|fault| ChoiceError::NamespaceDirectory(fault.at(paths.directory())))?;
    let opened = HostFile::open_beneath(&directory, paths.name(namespace).as_ref());
    opened.and_then(read_document).map_err(|fault| {
        let path = paths.path(namespace);
        match fault.is_absent() {
            true => ChoiceError::NoDocument { namespace: namespace.clone(), path },
            false => ChoiceError::NamespaceFile(fault.at(path)),
        }
    })
}

/// Opens the directory of the documents, in which nobody but the administrator may give a document
/// another name.
fn open_directory(node: &NodeRoot, path: &Path) -> Result<Root, FileFault> {
    let root = node.directory(path)?;
    let opened = File::from(root.as_fd().try_clone_to_owned()?);
    require_administered(&opened.metadata()?)?;
    Ok(root)
}
