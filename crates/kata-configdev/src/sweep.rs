//! Removal of what sandboxes left that no longer exist.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::living::{self, Living, Signs};
use crate::refusal::last;
use crate::sandbox_id::SandboxId;
use crate::shared_image::record::{self, Life};
use crate::shared_image::{self, Kept, SharedImageError};
use crate::{exit, providers};

/// How old must be at least what a sandbox left. Between `attach` and the start of the hypervisor
/// there may be a moment in which nothing on the node shows that the sandbox exists.
pub const DEFAULT_MIN_AGE: Duration = Duration::from_secs(60);

/// What a sweep did.
#[derive(Debug, Default)]
pub struct Swept {
    /// The sandboxes whose images were removed, ours and those of Kata's initdata.
    pub removed: Vec<SandboxId>,
    /// The sandboxes whose images stay: they live, or their images are young.
    pub kept: Vec<SandboxId>,
    /// The sandboxes whose images stay because they cannot be looked at or removed, and why.
    pub failed: Vec<(SandboxId, SharedImageError)>,
    /// The sandboxes that are gone, and the directories that Kata left of them. They stay: they are
    /// Kata's.
    pub remains: Vec<(SandboxId, Vec<PathBuf>)>,
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

/// Removes the images below `run_root` of sandboxes whose process [let go](record) of their record,
/// and those without such a record that are at least `min_age` old and whose sandboxes nothing
/// suggests to exist: see [`Living::signs`]. Directories of Kata suggest it as long as they are
/// younger than `min_age`; older ones are told. An image that cannot be removed does not keep the
/// rest. Answers of credential providers that have expired go, too, and refusals of yesterday.
///
/// # Errors
///
/// [`SweepError`]. Nothing is removed then.
pub fn sweep(run_root: &Path, min_age: Duration) -> Result<Swept, SweepError> {
    let mut swept = Swept::default();
    providers::forget_expired(run_root);
    last::forget(run_root, last::KEPT_FOR);
    each(run_root, min_age, &mut swept, |sandbox, fate| match fate {
        Fate::Lives => Ok(false),
        Fate::Released => shared_image::remove_released(run_root, sandbox),
        Fate::Dead => shared_image::remove_all(run_root, sandbox).map(|_| true),
    })?;
    Ok(swept)
}

/// What [`sweep`] would do; nothing is removed.
///
/// # Errors
///
/// [`SweepError`].
pub fn survey(run_root: &Path, min_age: Duration) -> Result<Swept, SweepError> {
    let mut swept = Swept::default();
    each(run_root, min_age, &mut swept, |_, fate| Ok(fate != Fate::Lives))?;
    Ok(swept)
}

/// What [`sweep_released`] would remove of sandboxes that let go of their record; nothing is
/// removed.
///
/// # Errors
///
/// [`SharedImageError`].
pub fn survey_released(run_root: &Path) -> Result<Swept, SharedImageError> {
    let mut swept = Swept::default();
    for Kept { sandbox, age } in shared_image::all(run_root)? {
        let is_released =
            age.and_then(|_| record::life(run_root, &sandbox)).map(|life| life == Life::Released);
        swept.add(sandbox, is_released);
    }
    Ok(swept)
}

/// What is known of a sandbox that has images.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    /// Its process let go of its record.
    Released,
    /// Nothing suggests that it exists.
    Dead,
}

/// Adds every sandbox to `swept`: whether `remove` removed its images, and what Kata left.
fn each(
    run_root: &Path,
    min_age: Duration,
    swept: &mut Swept,
    mut remove: impl FnMut(&SandboxId, Fate) -> Result<bool, SharedImageError>,
) -> Result<(), SweepError> {
    // First what sandboxes have, then the living: one that starts in between is not in the lists.
    let images = shared_image::all(run_root)?;
    let with_directories = living::with_directories(run_root).map_err(SweepError::Living)?;
    if images.is_empty() && with_directories.is_empty() {
        return Ok(());
    }
    let living = Living::look(run_root).map_err(SweepError::Living)?;
    let is_old = |age: Option<Duration>| age.is_some_and(|age| age >= min_age);
    for sandbox in with_directories {
        if let Signs::Remains(paths) = living.signs(&sandbox)
            && is_old(living::age(&paths))
        {
            swept.remains.push((sandbox, paths));
        }
    }
    let fate = |sandbox: &SandboxId, age| {
        // A sandbox that holds its record needs no other sign.
        match record::life(run_root, sandbox)? {
            Life::Held => return Ok(Fate::Lives),
            Life::Released => return Ok(Fate::Released),
            Life::Unknown => {}
        }
        let is_gone = match living.signs(sandbox) {
            Signs::Life => false,
            Signs::Remains(paths) => is_old(living::age(&paths)),
            Signs::None => true,
        };
        Ok(match is_gone && is_old(age) {
            true => Fate::Dead,
            false => Fate::Lives,
        })
    };
    for Kept { sandbox, age } in images {
        let removed =
            age.and_then(|age| fate(&sandbox, age)).and_then(|fate| remove(&sandbox, fate));
        swept.add(sandbox, removed);
    }
    Ok(())
}

/// Removes what the sandboxes below `run_root` left whose process let go of their record, and what
/// killed processes left of others. It looks at no process, so that it may run in a container; what
/// sandboxes without such a record left, [`sweep`] removes.
///
/// # Errors
///
/// [`SharedImageError`] where the sandboxes cannot be listed. Nothing is removed then.
pub fn sweep_released(run_root: &Path, min_age: Duration) -> Result<Swept, SharedImageError> {
    let mut swept = Swept::default();
    for Kept { sandbox, age } in shared_image::all(run_root)? {
        let removed = age.and_then(|age| {
            let is_old = age.is_some_and(|age| age >= min_age);
            Ok(shared_image::remove_released(run_root, &sandbox)?
                || (is_old && shared_image::remove_unfinished(run_root, &sandbox)?))
        });
        swept.add(sandbox, removed);
    }
    Ok(swept)
}

impl Swept {
    fn add(&mut self, sandbox: SandboxId, removed: Result<bool, SharedImageError>) {
        match removed {
            Ok(true) => self.removed.push(sandbox),
            Ok(false) => self.kept.push(sandbox),
            Err(error) => self.failed.push((sandbox, error)),
        }
    }
}
