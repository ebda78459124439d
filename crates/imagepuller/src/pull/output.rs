//! Unpacks one image to a directory, without a mount, and leaves nothing behind on a failure.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use layer_store::flatten;
use layer_store::store::Store;
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use pull_route::Settings;
use registry_client::Documents;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::asked::Asked;
use super::bring::{Brought, Manner};
use super::{Options, Puller};
use crate::blocking::blocking;
use crate::bundle;
use crate::error::Error;
use crate::watch::Watch;

/// What is wanted at a terminal.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The image's name.
    pub name: NamedReference,
    /// The same as it was written, for the event log.
    pub written: String,
    /// Whether what the registry has under its tag will do, where neither the name nor a pin has a
    /// digest.
    pub may_be_unpinned: bool,
}

impl Wanted {
    /// What the name means by the documents.
    fn meant(&self, settings: &Settings, options: &Options) -> Result<Asked, Error> {
        match self.may_be_unpinned || options.policy.is_some() {
            true => Asked::of(&self.name, settings),
            false => Asked::of_content(&self.name, settings),
        }
    }
}

/// Pulls an image into a directory that is empty or not there, as `DIR/rootfs` and
/// `DIR/image-config.json`. Gives the digest of its manifest.
///
/// # Errors
///
/// Any [`Error`]. Nothing is left then; nor, but for a hidden directory that the next attempt
/// removes, when the future is dropped.
pub async fn pull_to(
    wanted: &Wanted,
    output: &Path,
    documents: Documents,
    options: Options,
    watch: &Watch,
) -> Result<Digest, Error> {
    // Before anything is made or asked for.
    let of = documents.clone();
    let settings = blocking(move || Ok(of.load()?)).await?;
    let asked = wanted.meant(&settings, &options)?;
    let directory = output.to_owned();
    let prepared = blocking(move || Output::prepare(&directory)).await?;
    let store = prepared.stage.path().join("store");
    let store = blocking(move || Ok(Arc::new(Store::open(&store)?))).await?;
    let puller = Puller::new(store.clone(), documents, options);
    puller.begin(&settings).await?;
    let manner = Manner {
        patience: puller.options.patience,
        watch,
        may_be_unpinned: wanted.may_be_unpinned,
    };
    let Brought { verified, layers, .. } = puller.bring(&asked, &settings, manner).await?;
    puller.event_log.pull(&wanted.written, &verified.manifest).await?;
    blocking(move || {
        let rootfs = prepared.stage.path().join("rootfs");
        flatten::flatten(&layers, &rootfs)?;
        bundle::write_configuration(prepared.stage.path(), &verified.configuration)?;
        prepared.publish()?;
        Ok(verified.manifest)
    })
    .await
}

/// A directory to be filled. What is in the making lies below it, on the same file system.
struct Output {
    directory: PathBuf,
    stage: tempfile::TempDir,
    is_new: bool,
    is_published: bool,
    /// Held as long as the directory is being filled: what another one has unfinished in it looks
    /// like waste.
    _lock: File,
}

/// How often the removal of unfinished work is tried again, and how long after.
const MAX_REMOVALS: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);

/// How the directory with unfinished work is called.
const STAGE_PREFIX: &str = ".imagepuller-";

impl Output {
    fn prepare(directory: &Path) -> Result<Self, Error> {
        let is_new = match fs::create_dir(directory) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(layer_store::Error::file("create", directory)(error).into()),
        };
        let failed = |error| layer_store::Error::file("read", directory)(error);
        let refused = |rule| {
            let path = directory.to_owned();
            Err(Error::Output { path, rule })
        };
        let lock = File::open(directory).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return refused("is being filled by another pull"),
            Err(error) => return Err(failed(error.into()).into()),
        }
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A file system's own directory, and what a killed attempt left.
            let name = entry.file_name();
            let is_stale = name.as_encoded_bytes().starts_with(STAGE_PREFIX.as_bytes());
            if is_stale {
                layer_unpack::removal::remove_path(&entry.path()).map_err(failed)?;
            } else if name != "lost+found" {
                return refused(
                    "is not empty; an image is unpacked to an empty or a new directory",
                );
            }
        }
        let stage = tempfile::Builder::new()
            .prefix(STAGE_PREFIX)
            .tempdir_in(directory)
            .map_err(layer_store::Error::file("create a directory in", directory))?;
        Ok(Self {
            directory: directory.to_owned(),
            stage,
            is_new,
            is_published: false,
            _lock: lock,
        })
    }

    fn publish(mut self) -> Result<(), Error> {
        // The root file system comes last: where it is, the rest is too.
        for name in [bundle::CONFIGURATION, "rootfs"] {
            let target = self.directory.join(name);
            fs::rename(self.stage.path().join(name), &target)
                .map_err(layer_store::Error::file("create", &target))?;
        }
        self.is_published = true;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let stage = self.stage.path();
        let mut removed = layer_unpack::removal::remove_path(stage);
        for _ in 0..MAX_REMOVALS {
            // The thread of a layer that is no longer wanted notices that in a moment, and cleans
            // up here too.
            if removed.is_ok() || !stage.exists() {
                break;
            }
            thread::sleep(REMOVAL_PAUSE);
            removed = layer_unpack::removal::remove_path(stage);
        }
        if stage.exists() {
            tracing::warn!(path = %stage.display(), error = ?removed.err(), "cannot remove");
        }
        if !self.is_published {
            let _ = fs::remove_file(self.directory.join(bundle::CONFIGURATION));
            if self.is_new {
                let _ = fs::remove_dir(&self.directory);
            }
        }
    }
}
