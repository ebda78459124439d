//! What would keep the wrapper from starting sandboxes, found without starting one.

use std::io;
use std::path::Path;

use linux_sys::rooted::Root;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::choice::ChoiceError;
use crate::sandbox_document::SandboxDocument;
use crate::settings::Settings;
use crate::{SandboxError, further_disk, wrapper};

/// Why the wrapper would refuse sandboxes with these `settings`, in the order in which it would
/// notice: every sandbox, or, for a directory of the allow-list, those whose pods name a document.
#[must_use]
pub fn obstacles(settings: &Settings) -> Vec<SandboxError> {
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
    found.extend(SandboxDocument::choose(settings, None).err());
    found.extend(settings.disks.iter().filter_map(|(magic, disk)| {
        let content = disk.read(*magic);
        let packed = content
            .map_err(SandboxError::from)
            .and_then(|content| Ok(further_disk::pack(*magic, &disk.source, &content)?));
        packed.err()
    }));
    let allowed = settings.annotation_allow.iter();
    found.extend(allowed.filter_map(|directory| {
        let source = Root::open(directory).err()?;
        let directory = directory.clone();
        Some(ChoiceError::AnnotationDirectory { directory, source }.into())
    }));
    found
}

/// Whether `path` can be executed and is not the wrapper.
fn program(path: &Path) -> Result<(), SandboxError> {
    let failed = |source| SandboxError::Exec {
        path: path.into(),
        source,
    };
    let real = path.canonicalize().map_err(failed)?;
    if real.file_name().is_some_and(|name| name == wrapper::NAME) {
        return Err(SandboxError::QemuIsWrapper(path.into()));
    }
    if !real.is_file() {
        return Err(failed(Errno::ACCESS.into()));
    }
    access(&real, Access::EXEC_OK).map_err(|errno| failed(io::Error::from(errno)))
}
