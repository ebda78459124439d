//! New content for the configuration disk of a running sandbox.

use std::path::{Path, PathBuf};

use memory_disk::update::Client;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::sandbox_id::SandboxId;
use crate::settings::Transport;
use crate::shared_image::{self, InPlace, socket};
use crate::{Error, capacity, digest};

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updated {
    /// How the sandbox has its disk: [`Transport::File`] or [`Transport::VhostUser`].
    pub transport: Transport,
    /// The image's file, or the socket of the process that serves it.
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

/// Puts `image`, which [`config_image::encode`] made of a valid document, in the place of the image
/// that the sandbox has, and zeroes what is left of the old one.
///
/// A guest that reads meanwhile gets the old document, the new one, or one that it refuses and has
/// to read again. It is not told: it finds out when it reads the disk around its page cache.
///
/// # Errors
///
/// [`Error::NothingToUpdate`], [`Error::UpdateTooLarge`], [`Error::UpdateTwice`],
/// [`Error::UpdateBusy`], [`Error::UpdateTorn`], [`Error::UpdateServed`], [`Error::SharedImage`].
/// All but the torn one leave the disk as it was.
pub fn update(
    run_root: &Path,
    sandbox: &SandboxId,
    image: Zeroizing<Vec<u8>>,
) -> Result<Updated, Error> {
    let served = socket::connect(run_root, sandbox)?;
    let file = InPlace::open(run_root, sandbox)?;
    let used = image.len();
    let pad = |size| {
        if used > size {
            let capacity = size;
            return Err(Error::UpdateTooLarge { used, capacity });
        }
        Ok(capacity::pad(image, size))
    };
    let (transport, path, image, changed) = match (file, served) {
        (Some(file), None) => {
            let image = pad(file.capacity())?;
            let changed = file.write(&image)?;
            (Transport::File, file.path().to_owned(), image, changed)
        }
        (None, Some(stream)) => {
            let client = Client::greet(stream).map_err(Error::UpdateServed)?;
            let image = pad(client.capacity())?;
            let changed = client.send(&image).map_err(Error::UpdateServed)?;
            let path = socket::path(run_root, sandbox);
            (Transport::VhostUser, path, image, changed)
        }
        (Some(file), Some(_)) => {
            return Err(Error::UpdateTwice {
                path: file.path().to_owned(),
            });
        }
        (None, None) => {
            return Err(Error::NothingToUpdate {
                path: shared_image::path(run_root, sandbox),
                transport: None,
            });
        }
    };
    Ok(Updated {
        transport,
        path,
        size: image.len(),
        used,
        sha256: digest::hex::<Sha256>(&image),
        changed,
    })
}
