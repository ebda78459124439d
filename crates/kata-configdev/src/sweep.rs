//! Removal of the images of sandboxes that no longer exist.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::living::Living;
use crate::sandbox_id::SandboxId;
use crate::shared_image::{self, KeptImage, SharedImageError};
use crate::{exit, providers};

/// How old an image must be at least. Between `attach` and the start of the hypervisor there may be
/// a moment in which nothing on the node shows that the sandbox exists.
pub const DEFAULT_MIN_AGE: Duration = Duration::from_secs(60);

/// What a sweep did.
#[derive(Debug)]
pub struct Swept {
    /// The sandboxes whose images were removed.
    pub removed: Vec<SandboxId>,
    /// The sandboxes whose images stay: they live, or their images are young.
    pub kept: Vec<SandboxId>,
    /// The sandboxes whose images stay because they cannot be looked at or removed, and why.
    pub failed: Vec<(SandboxId, SharedImageError)>,
}

/// Why nothing is swept, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The images cannot be listed.
    #[error(transparent)]
    Images(#[from] SharedImageError),
    /// The living sandboxes cannot be seen.
    #[error("look for living sandboxes: {0}")]
    Living(io::Error),
}

impl SweepError {
    /// The exit code of a program that ends with this error.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Images(_) => exit::UNAVAILABLE,
            Self::Living(_) => exit::INTERNAL,
        }
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Images(error) => error.remedy(),
            Self::Living(_) => {
                "run this where it can read the node's /proc and containerd's folder in /run"
            }
        }
    }
}

/// Removes the images below `run_root` that are at least `min_age` old and whose sandboxes nothing
/// suggests to exist: see [`Living::has`]. One that cannot be removed does not keep the rest.
/// Answers of credential providers that have expired go, too.
///
/// # Errors
///
/// [`SweepError`]. Nothing is removed then.
pub fn sweep(run_root: &Path, min_age: Duration) -> Result<Swept, SweepError> {
    let mut swept = Swept {
        removed: Vec::new(),
        kept: Vec::new(),
        failed: Vec::new(),
    };
    providers::forget_expired(run_root);
    // First the images, then the living: a sandbox that starts in between has no image in the list.
    let images = shared_image::all(run_root)?;
    if images.is_empty() {
        return Ok(swept);
    }
    let living = Living::look(run_root).map_err(SweepError::Living)?;
    for KeptImage { sandbox, age } in images {
        let is_old = age.map(|age| age.is_some_and(|age| age >= min_age));
        let removed = is_old.and_then(|is_old| {
            let is_dead = is_old && !living.has(&sandbox);
            if is_dead {
                shared_image::remove(run_root, &sandbox)?;
            }
            Ok(is_dead)
        });
        match removed {
            Ok(true) => swept.removed.push(sandbox),
            Ok(false) => swept.kept.push(sandbox),
            Err(error) => swept.failed.push((sandbox, error)),
        }
    }
    Ok(swept)
}
