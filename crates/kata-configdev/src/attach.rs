//! The configuration disk for runtimes that build the hypervisor's configuration themselves,
//! instead of being wrapped.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use credential_sources::Finding;
use linux_sys::loop_device::LoopDevice;
use linux_sys::memfd;

use crate::digest;
use crate::disk::NAME;
use crate::sandbox_document::SandboxDocument;
use crate::sandbox_id::SandboxId;
use crate::settings::Settings;
use crate::shared_image::{SharedImageError, record};
use crate::transport::Transport;
use crate::{SandboxError, sandbox_spec, shared_image};

/// For which sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The directory with the sandbox's OCI spec, `config.json`: the pod's annotation may name a
    /// document, and its namespace may decide.
    pub bundle: &'a Path,
    /// The sandbox's id.
    pub sandbox: &'a SandboxId,
}

/// A configuration disk, ready for a hypervisor: a raw, read-only virtio block device over
/// [`Attached::carrier`].
#[derive(Debug)]
pub struct Attached {
    /// What holds the image.
    pub carrier: Carrier,
    /// The serial that the device should have. A hint for people: guests know the disk by its first
    /// bytes.
    pub serial: String,
    /// The image's length in bytes, a multiple of 512.
    pub size: u64,
    /// The image's SHA-256 in hexadecimal.
    pub sha256: String,
    /// The document that the sandbox got.
    pub document: PathBuf,
    /// What credential providers did not contribute to it, and why.
    pub warnings: Vec<Finding>,
}

/// What holds an image. None can be written through.
#[derive(Debug)]
#[non_exhaustive]
pub enum Carrier {
    /// A sealed anonymous file, read-only and close-on-exec. Lives as long as the descriptor or a
    /// copy of it.
    Memory(OwnedFd),
    /// A file of mode 0600. Lives until [`detach`] or [`sweep`](crate::sweep::sweep).
    File(PathBuf),
    /// A loop device. Lives as long as this value, or anybody else who opened its path.
    Loop(LoopDevice),
}

/// Chooses, packs and attaches the document of a sandbox by the transport of `settings`; `None`
/// where the sandbox gets no disk.
///
/// ```no_run
/// use std::path::Path;
///
/// use kata_configdev::attach::{Carrier, Request, attach, detach};
/// use kata_configdev::sandbox_id::SandboxId;
/// use kata_configdev::settings::Settings;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = Settings::load(Path::new("/etc/kata-configdev/config.toml"))?;
/// let sandbox = SandboxId::parse("9d2c7e")?;
/// let request = Request { bundle: Path::new("."), sandbox: &sandbox };
/// if let Some(disk) = attach(&settings, &request)? {
///     match disk.carrier {
///         // QEMU: an fd set with this descriptor, and /dev/fdset/N as the file.
///         Carrier::Memory(descriptor) => println!("descriptor {descriptor:?}"),
///         // Cloud Hypervisor: the path of a disk of vm.create, with readonly.
///         Carrier::File(path) => println!("file {}", path.display()),
///         // Drop it when the hypervisor has opened the device.
///         Carrier::Loop(device) => println!("device {}", device.path().display()),
///         _ => unreachable!("settings choose the transport"),
///     }
///     println!("{} bytes, serial {}", disk.size, disk.serial);
/// }
/// // When the sandbox is gone:
/// detach(&settings, &sandbox)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Every [`SandboxError`] of the spec, the choice, the document, the packing and the transport.
/// [`SandboxError::ServerNeeded`] for [`Transport::VhostUser`], which only the command
/// `kata-configdev attach` can do.
pub fn attach(
    settings: &Settings,
    request: &Request<'_>,
) -> Result<Option<Attached>, SandboxError> {
    let pod = sandbox_spec::pod(request.bundle)?;
    let Some(chosen) = SandboxDocument::complete(settings, &pod)? else {
        return Ok(None);
    };
    let image = chosen.pack(settings)?;
    if settings.transport == Transport::File {
        // This process may end before the hypervisor starts: nobody holds it.
        let record = chosen.record(settings, false);
        drop(record::put(&settings.run_root, request.sandbox, &record)?);
    }
    Ok(Some(Attached {
        carrier: carry(settings, request.sandbox, &image)?,
        serial: NAME.to_owned(),
        size: image.len() as u64,
        sha256: digest::sha256(&image),
        document: chosen.path.clone(),
        warnings: chosen.warnings(),
    }))
}

fn carry(settings: &Settings, sandbox: &SandboxId, image: &[u8]) -> Result<Carrier, SandboxError> {
    Ok(match settings.transport {
        Transport::Memory => Carrier::Memory(in_memory(image)?),
        Transport::File => Carrier::File(shared_image::put(&settings.run_root, sandbox, image)?),
        Transport::Loop => {
            let backing = in_memory(image)?;
            Carrier::Loop(LoopDevice::attach_read_only(&backing).map_err(SandboxError::LoopDevice)?)
        }
        // Serving one takes all rights from the process, for good.
        Transport::VhostUser => return Err(SandboxError::ServerNeeded),
    })
}

fn in_memory(image: &[u8]) -> Result<OwnedFd, SandboxError> {
    memfd::sealed(c"imagepuller", image).map_err(SandboxError::Memory)
}

/// Removes what [`attach`] left for a sandbox: the file of the transport `file`. The others remove
/// themselves. Says whether there was one; doing it again is no error.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn detach(settings: &Settings, sandbox: &SandboxId) -> Result<bool, SharedImageError> {
    shared_image::remove(&settings.run_root, sandbox)
}
