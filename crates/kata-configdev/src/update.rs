//! New content for the configuration disk of a running sandbox.

use std::io;
use std::path::{Path, PathBuf};

use config_image::Magic;
use registry_config::{Document, Registry, RegistryName};
use zeroize::Zeroizing;

use crate::sandbox_id::SandboxId;
use crate::shared_image::{self, InPlace, OpenError, SharedImageError};
use crate::transport::Transport;
use crate::{capacity, digest, exit};

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updated {
    /// The image's file.
    pub path: PathBuf,
    /// The disk's size in bytes, as before.
    pub size: usize,
    /// How much of it the new image needs.
    pub used: usize,
    /// SHA-256 of the disk in hexadecimal.
    pub sha256: String,
    /// Whether the disk had another content before.
    pub changed: bool,
}

/// Why a sandbox's configuration is not updated, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The sandbox's image is not one that can be used.
    #[error(transparent)]
    Image(#[from] SharedImageError),
    /// The sandbox has no image that can change.
    #[error(
        "update the sandbox's configuration: there is no image at {}",
        path.display(),
    )]
    Nothing {
        /// Where the image would be.
        path: PathBuf,
        /// The transport of the settings, where they were read.
        transport: Option<Transport>,
    },
    /// The new document does not fit the disk.
    #[error(
        "update the sandbox's configuration: the new image has {used} bytes, the disk {capacity}"
    )]
    TooLarge {
        /// The size of the new image.
        used: usize,
        /// The size of the disk.
        capacity: usize,
    },
    /// The image's file cannot be opened for an update.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The update could not be finished.
    #[error(
        "update {}: {source}; until an update succeeds the guest may refuse the disk",
        path.display()
    )]
    Torn {
        /// The image.
        path: PathBuf,
        /// What the file system says.
        source: io::Error,
    },
}

/// What to do instead of a transport that seals images.
macro_rules! sealed {
    ($transport:literal) => {
        concat!(
            "the transport of the settings, \"",
            $transport,
            "\", seals images: choose \"file\" for sandboxes whose credentials change"
        )
    };
}

impl UpdateError {
    /// The exit code of a program that ends with this error.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::TooLarge { .. } => exit::DATA,
            Self::Image(_) | Self::Nothing { .. } | Self::Open(_) | Self::Torn { .. } => {
                exit::UNAVAILABLE
            }
        }
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Image(error) => error.remedy(),
            Self::Open(error) => error.remedy(),
            Self::Nothing { transport, .. } => match transport {
                Some(Transport::Memory) => sealed!("memory"),
                Some(Transport::Loop) => sealed!("loop"),
                Some(Transport::VhostUser) => sealed!("vhost-user"),
                Some(Transport::File) => {
                    "look at the id, and whether the sandbox has a configuration"
                }
                None => {
                    "look at the id, whether the sandbox has a configuration, and its transport: \
                    only \"file\" does not seal images"
                }
            },
            Self::TooLarge { .. } => {
                "shorten the document, or start the sandbox anew with a larger capacity in the \
                settings or of attach"
            }
            Self::Torn { .. } => "remove what the file system complains of, then update again",
        }
    }
}

/// Whether the disk of a sandbox, a file, holds a document that refuses every pull, or none that a
/// guest would take.
#[must_use]
pub fn holds_nothing(run_root: &Path, sandbox: &SandboxId) -> bool {
    held(run_root, sandbox).is_some_and(|held| held.is_none())
}

/// Whether `document` has credentials wherever the disk of a sandbox, a file, has some, and as many
/// of them.
#[must_use]
pub fn holds_no_more(run_root: &Path, sandbox: &SandboxId, document: &Document) -> bool {
    let accounts = |registry: &Registry| match registry.credentials.is_anonymous() {
        true => 0,
        false => 1 + registry.also.len(),
    };
    let of = |name: &RegistryName| {
        let mut entries = document.registries.iter();
        let found = entries.find(|(other, _)| *other == name);
        found.map_or(0, |(_, registry)| accounts(registry))
    };
    let is_covered = |held: &Document| {
        let mut entries = held.registries.iter();
        entries.all(|(name, registry)| accounts(registry) <= of(name))
    };
    held(run_root, sandbox).is_some_and(|held| held.as_ref().is_none_or(is_covered))
}

/// What the disk of a sandbox says that lets it pull; `None` as a whole where that cannot be seen.
fn held(run_root: &Path, sandbox: &SandboxId) -> Option<Option<Document>> {
    let file = InPlace::open(run_root, sandbox).ok()??;
    let image = file.read().ok()?;
    let found = config_image::decode(image.as_slice(), Magic::IMAGEPULLER).ok();
    let parsed = found.and_then(|found| Document::parse(&found.document).ok());
    let document = parsed.map(|parsed| parsed.document);
    Some(document.filter(|document| document.node_error.is_none()))
}

/// Puts `image`, which [`config_image::encode`] made of a valid document, in the place of the image
/// that the sandbox has, and zeroes what is left of the old one.
///
/// A guest that reads meanwhile gets the old document, the new one, or one that it refuses and has
/// to read again. It is not told: it finds out when it reads the disk around its page cache.
///
/// # Errors
///
/// [`UpdateError`]. All but [`UpdateError::Torn`] leave the disk as it was.
pub fn update(
    run_root: &Path,
    sandbox: &SandboxId,
    image: Zeroizing<Vec<u8>>,
) -> Result<Updated, UpdateError> {
    let file = InPlace::open(run_root, sandbox)?.ok_or_else(|| UpdateError::Nothing {
        path: shared_image::path(run_root, sandbox),
        transport: None,
    })?;
    let (used, size) = (image.len(), file.capacity());
    if used > size {
        return Err(UpdateError::TooLarge { used, capacity: size });
    }
    let image = capacity::pad(image, size);
    let changed = file
        .write(&image)
        .map_err(|source| UpdateError::Torn { path: file.path().into(), source })?;
    let path = file.path().to_owned();
    Ok(Updated { path, size, used, sha256: digest::sha256(&image), changed })
}
