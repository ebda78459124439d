//! Waits for the file system that an image store is to be on.

use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::blocking::blocking;
use crate::error::Error;

/// How often it is looked for, and how long after.
const MAX_LOOKS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until something is mounted at `path`.
///
/// # Errors
///
/// [`Error::StoreMount`].
pub(crate) async fn wait(path: &Path) -> Result<(), Error> {
    for look in 0..MAX_LOOKS {
        let place = path.to_owned();
        if blocking(move || Ok(is_mount_point(&place))).await? {
            return Ok(());
        }
        if look == 0 {
            tracing::info!(path = %path.display(), "waiting for a file system");
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Error::StoreMount { path: path.to_owned(), seconds: (PAUSE * MAX_LOOKS).as_secs() })
}

fn is_mount_point(path: &Path) -> bool {
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}
