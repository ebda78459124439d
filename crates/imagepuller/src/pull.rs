//! One pull from beginning to end.
//!
//! - [`Puller::pull`] mounts an image in a bundle, for the agent; [`output`] unpacks one to a
//!   directory, for a person.
//! - `broker`: fetches credentials and roots that only the guest may see.
//! - `clock`: refuses to work by a clock that is certainly wrong.
//! - `sources`: the mirrors and the registry, in order.
//! - `resolve`: follows digests from the reference down to the layers.
//! - `unlock`: finds the keys of encrypted layers.
//! - `layers`: brings the layers into the store.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kbs_client::AttestationAgent;
use layer_store::layer::Layer;
use layer_store::mount;
use layer_store::store::Store;
use layer_unpack::caller::CallerGuard;
use oci_image::digest::Digest;
use oci_image::platform::Platform;
use oci_image::reference::ImageReference;
use oci_image::search::Image;
use pull_route::{Route, Settings};
use puller_config::{RegistryHost, Resources};
use registry_client::Documents;
use registry_client::Patience;
use tokio::sync::Semaphore;

use crate::blocking::blocking;
use crate::bundle::Bundle;
use crate::error::Error;
use crate::event_log::EventLog;
use crate::progress::{Event, Progress};

mod broker;
mod clock;
mod layers;
pub mod output;
mod resolve;
mod sources;
mod unlock;

use broker::{Broker, Secrets};
use layers::Layers;
use sources::Sources;

/// How many layers are unpacked at a time in a service, for all images, unless more are asked for
/// one. Each costs some MiB of buffers.
const MAX_LAYERS_UNPACKED_AT_ONCE: usize = 4;

/// How many layers of one image are fetched at once, unless something else is asked for: one fills
/// the network while another fills a core.
pub const LAYERS_AT_ONCE: u8 = 2;

/// How images are pulled.
#[derive(Clone, Debug)]
pub struct Options {
    /// The platform that is chosen from an index.
    pub platform: Platform,
    /// How many layers of one image are fetched and unpacked at once.
    pub layers_at_once: u8,
    /// How long a registry is waited for, and how often.
    pub patience: Patience,
    /// The receiver of events.
    pub progress: Progress,
    /// Sources of secrets that only the guest may see, unless the measured document names some.
    pub resources: Resources,
    /// Where the attestation agent listens, which keeps the event log.
    pub attestation_agent: PathBuf,
    /// The text of the initdata, for key brokers; there may be no such file.
    pub initdata: Option<PathBuf>,
}

impl Default for Options {
    /// For the guest itself.
    fn default() -> Self {
        Self {
            platform: Platform::of_guest(),
            layers_at_once: LAYERS_AT_ONCE,
            progress: Progress::default(),
            patience: Patience::default(),
            resources: Resources::default(),
            attestation_agent: AttestationAgent::SOCKET.into(),
            initdata: None,
        }
    }
}

/// Pulls images into one store.
#[derive(Debug)]
pub struct Puller {
    layers: Layers,
    documents: Documents,
    broker: Broker,
    event_log: EventLog,
    options: Options,
    /// Held from the check of a bundle until the image is mounted in it, so that of two pulls into
    /// one bundle the second one sees the first.
    mounting: Arc<Mutex<()>>,
}

impl Puller {
    /// A puller for a store; the documents are read anew for every pull.
    pub fn new(store: Arc<Store>, documents: Documents, options: Options) -> Self {
        let at_once = usize::from(options.layers_at_once);
        let places = MAX_LAYERS_UNPACKED_AT_ONCE.max(at_once);
        Self {
            layers: Layers {
                store,
                progress: options.progress.clone(),
                at_once,
                places: Arc::new(Semaphore::new(places)),
            },
            documents,
            broker: Broker::new(options.resources.clone(), options.initdata.clone()),
            event_log: EventLog::new(&options.attestation_agent),
            options,
            mounting: Arc::default(),
        }
    }

    /// Pulls an image, mounts it in a bundle and gives the digest of its manifest for this
    /// platform. On an error nothing is mounted, nor when the future is dropped.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn pull(&self, name: &str, bundle: &str) -> Result<Digest, Error> {
        let started = Instant::now();
        let bundle = Bundle::parse(bundle)?;
        let image = ImageReference::parse(name)?;
        let secrets = self.broker.secrets();
        let (registry, repository) = (image.registry(), image.repository());
        let route = self.route(&secrets, registry, repository).await?;
        let sources = Sources::new(&route, repository, &self.options);
        let settings = &route.settings;
        let fetched = self.fetch(&sources, image.digest(), settings, &secrets);
        let (verified, layers) = fetched.await?;
        let fetched = started.elapsed();
        let manifest = verified.manifest;
        self.event_log.pull(name, &manifest, settings).await?;
        let store = self.layers.store.clone();
        let count = layers.len();
        let mounting = self.mounting.clone();
        let waiting = CallerGuard::default();
        let caller = waiting.watch();
        let mounted = blocking(move || {
            let _alone = mounting.lock().unwrap_or_else(PoisonError::into_inner);
            let given_up = || Error::Internal("nobody waits for the mount any more".to_owned());
            if caller.is_gone() {
                return Err(given_up());
            }
            let rootfs = bundle.prepare()?;
            bundle.write_configuration(&verified.configuration)?;
            let mounted = mount::overlay(store.container(layers)?, rootfs)?;
            // Undone before the next pull may look at this bundle.
            if caller.is_gone() {
                return Err(given_up());
            }
            Ok(mounted)
        })
        .await?;
        drop(waiting);
        let rootfs = mounted.keep();
        tracing::info!(
            %image, %manifest, layers = count, rootfs = %rootfs.display(),
            fetched_ms = fetched.as_millis(), total_ms = started.elapsed().as_millis(), "mounted"
        );
        Ok(manifest)
    }

    /// The documents as they are now. That of the host is in the event log before anything is done
    /// with it.
    ///
    /// # Errors
    ///
    /// As those of [`Documents::load`], and where the event log must have the document and has not.
    pub async fn settings(&self) -> Result<Settings, Error> {
        let documents = self.documents.clone();
        let settings = blocking(move || Ok(documents.load()?)).await?;
        self.event_log.document(&settings).await?;
        clock::check(&settings)?;
        Ok(settings)
    }

    /// The hosts that one pull asks, with everything that is given by reference.
    async fn route(
        &self,
        secrets: &Secrets<'_>,
        registry: &RegistryHost,
        repository: &str,
    ) -> Result<Route, Error> {
        let settings = self.settings().await?;
        let route = secrets.settle(settings, registry, repository).await?;
        // A broker that was asked has said what time it is.
        clock::check(&route.settings)?;
        Ok(route)
    }

    async fn fetch(
        &self,
        sources: &Sources,
        digest: &Digest,
        settings: &Settings,
        secrets: &Secrets<'_>,
    ) -> Result<(Image, Vec<Layer>), Error> {
        let image = resolve::resolve(sources, digest, &self.options.platform).await?;
        let progress = &self.options.progress;
        progress.tell(Event::Resolved {
            manifest: image.manifest.clone(),
            layers: image.layers.len(),
            bytes: image
                .layers
                .iter()
                .fold(0, |sum: u64, (blob, _)| sum.saturating_add(blob.size)),
        });
        let keys = unlock::unlock(&image, settings, secrets, progress).await?;
        // As above, where the broker was asked for these only.
        clock::check(settings)?;
        let layers = self.layers.fetch(sources, &image, &keys).await?;
        Ok((image, layers))
    }
}
