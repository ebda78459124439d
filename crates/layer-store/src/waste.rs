//! How unused things are removed: they lose their name first, and their files later.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use layer_unpack::removal;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::Error;

/// Takes away the name of something unused. Its files go with
/// [`Store::tidy`](crate::store::Store::tidy).
pub(crate) fn throw_away(store: &Path, path: &Path) -> Result<(), Error> {
    let target = store.join("waste").join(unused_name()?);
    fs::rename(path, target).map_err(Error::file("throw away", path))
}

/// Removes something unused; says whether it is gone.
pub(crate) fn discard(path: &Path) -> bool {
    match removal::remove_path(path) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound && is_missing(path) => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot remove");
            false
        }
    }
}

pub(crate) fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// A name that nothing had before, nor will have.
pub(crate) fn unused_name() -> Result<String, Error> {
    let mut bytes = [0; 8];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty());
    match filled {
        Ok(length) if length == bytes.len() => Ok(format!("{:016x}", u64::from_ne_bytes(bytes))),
        Ok(_) => Err(Error::Internal("too few random bytes".to_owned())),
        Err(error) => Err(Error::Internal(format!("no random bytes: {error}"))),
    }
}
