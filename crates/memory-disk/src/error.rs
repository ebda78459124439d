//! Why the disk cannot be served.

use std::io;
use std::time::Duration;

use crate::device::{MAX_IMAGE_BYTES, SECTOR_BYTES};

/// Everything that can go wrong, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image is empty, too long, or no whole number of sectors.
    #[error(
        "serve an image of {bytes} bytes: it has to be a multiple of {SECTOR_BYTES}, at most \
        {MAX_IMAGE_BYTES}"
    )]
    ImageSize {
        /// Its length.
        bytes: usize,
    },
    /// The image could not be kept from being swapped.
    #[error("lock {bytes} bytes in memory: {source}; raise RLIMIT_MEMLOCK or grant CAP_IPC_LOCK")]
    Lock {
        /// How much was to be locked.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A wall of the sandbox could not be put up.
    #[error(transparent)]
    Sandbox(#[from] process_sandbox::Error),
    /// The socket or a thread could not be prepared.
    #[error("prepare the vhost-user device: {reason}")]
    Prepare {
        /// What was answered.
        reason: String,
    },
    /// No VMM came.
    #[error("serve the disk: no VMM connected within {} s", within.as_secs())]
    NobodyConnected {
        /// How long was waited.
        within: Duration,
    },
    /// The VMM and this device did not understand each other; for example the guest's memory could
    /// not be mapped.
    #[error("talk to the VMM over vhost-user: {reason}")]
    Protocol {
        /// What was wrong with the message, or with what it asked for.
        reason: String,
    },
}
