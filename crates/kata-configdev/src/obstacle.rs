//! What would keep the wrapper from starting sandboxes, found without starting one.

use std::io;
use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::choice::{self, ChoiceError};
use crate::namespace_path::NamespacePaths;
use crate::node_root::NodeRoot;
use crate::sandbox_document::SandboxDocument;
use crate::settings::Settings;
use crate::{SandboxError, wrapper};

/// Why the wrapper would refuse sandboxes with these `settings`, in the order in which it would
/// notice: every sandbox, or, for a directory of the allow-list, those whose pods name a document.
#[must_use]
pub fn obstacles(node: &NodeRoot, settings: &Settings) -> Vec<SandboxError> {
    let qemu = &settings.qemu;
    let binaries = [&qemu.default].into_iter().chain(qemu.by_machine.values());
    let mut found: Vec<SandboxError> = binaries.filter_map(|path| program(path).err()).collect();
    if !settings.enabled {
        return found;
    }
    if !settings.transport.is_for_wrapper() {
        found.push(SandboxError::WrapperTransport(settings.transport.name()));
    }
    // Without the plugins, which fail no sandbox.
    found.extend(documents(node, settings));
    let paths = NamespacePaths::of(settings);
    found.extend(paths.allowed.iter().filter_map(|allowed| {
        let source = node.directory(allowed.directory()).err()?.into();
        let directory = allowed.directory().into();
        Some(ChoiceError::AnnotationDirectory { directory, source }.into())
    }));
    if paths.key().is_some() {
        let overlap = paths.overlap(|path| node.real(path).ok());
        found.extend(overlap.map(|[one, other]| ChoiceError::Overlap(one, other).into()));
    }
    found
}

/// What is wrong with the document of the settings, or with those of the namespaces and what the
/// others get.
fn documents(node: &NodeRoot, settings: &Settings) -> Vec<SandboxError> {
    let Some(paths) = NamespacePaths::of(settings).document else {
        return SandboxDocument::of_node(settings).err().into_iter().collect();
    };
    let namespaces = match choice::namespaces(node, &paths) {
        Ok(namespaces) => namespaces,
        // They get words instead.
        Err(error) if error.is_absence() && settings.missing_document.is_some() => Vec::new(),
        Err(error) => return vec![error.into()],
    };
    let own = |namespace| choice::of_namespace(node, settings, &paths, namespace);
    let files = namespaces.iter().map(own).chain([choice::fallback(node, settings)]);
    let faults = files.filter_map(|file| match file {
        Ok(file) => SandboxDocument::parse(file?).err(),
        Err(error) => Some(error.into()),
    });
    faults.collect()
}

/// Whether `path` can be executed and is not the wrapper.
fn program(path: &Path) -> Result<(), SandboxError> {
    let failed = |source| SandboxError::Exec { path: path.into(), source };
    let real = path.canonicalize().map_err(failed)?;
    if real.file_name().is_some_and(|name| name == wrapper::NAME) {
        return Err(SandboxError::QemuIsWrapper(path.into()));
    }
    if !real.is_file() {
        return Err(failed(Errno::ACCESS.into()));
    }
    access(&real, Access::EXEC_OK).map_err(|errno| failed(io::Error::from(errno)))
}
