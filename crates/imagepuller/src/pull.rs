//! One pull from beginning to end.
//!
//! - [`Puller::pull`] mounts an image in a bundle, for the agent; [`output`] unpacks one to a
//!   directory, for a person.
//! - `asked`: which image a name means; `bring`: brings it into the store.
//! - `secrets`: fetches credentials and roots that only the guest may see.
//! - `clock`: refuses to work by a clock that is certainly wrong.
//! - `known_accounts`: which account of an entry worked the last time.
//! - `sources`: the mirrors and the registry, in order.
//! - `resolve`: follows digests from the reference down to the layers, in the store or by network.
//! - [`policy`]: whether the image may run by its signatures.
//! - `unlock`: finds the keys of encrypted layers.
//! - `layers`: brings the layers into the store; `flights`: each by one task, for all pulls;
//!   `budget`: what may be read ahead; `ahead`: even before the configuration is there; `reading`:
//!   one layer read and unpacked; `brought`: gives them back where they do not fit.
//! - [`visit`]: the way to the sources for who keeps nothing: [`probe`] says whether a pull would
//!   work.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cdh_client::AttestationAgent;
use layer_store::layer::Layer;
use layer_store::mount;
use layer_store::store::Store;
use layer_unpack::caller::CallerGuard;
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use oci_image::platform::Platform;
use oci_image::reference::ImageReference;
use oci_image::search::Image;
use pull_route::Settings;
use registry_client::{Documents, Patience, PlainHosts};
use registry_config::ResourceSource;

use crate::blocking::blocking;
use crate::bundle::Bundle;
use crate::error::Error;
use crate::event_log::EventLog;
use crate::reasons::Reasons;
use crate::watch::{Watch, silent};

mod ahead;
pub(crate) mod asked;
mod bring;
mod brought;
mod budget;
mod clock;
mod flights;
mod known_accounts;
mod layers;
pub mod output;
pub mod policy;
pub mod probe;
mod reading;
mod resolve;
mod secrets;
mod sources;
mod unlock;
pub mod visit;

use ahead::Ahead;
use asked::Asked;
use bring::{Brought, Manner};
use budget::Budget;
use flights::Flights;
use known_accounts::KnownAccounts;
use layers::Layers;
use policy::PolicyPlace;
use secrets::Secrets;

/// How images are pulled.
#[derive(Clone, Debug)]
pub struct Options {
    /// The platform that is chosen from an index.
    pub platform: Platform,
    /// How long a registry is waited for, and how often.
    pub patience: Patience,
    /// The source of secrets that only the guest may see, unless the measured document names one.
    pub source: Option<ResourceSource>,
    /// Where the attestation agent listens, which keeps the event log.
    pub attestation_agent: PathBuf,
    /// Where it is kept why references gave nothing.
    pub reasons: Reasons,
    /// The image policy of who asks, where the measured document has none.
    pub policy: Option<PathBuf>,
}

impl Default for Options {
    /// For the guest itself.
    fn default() -> Self {
        Self {
            platform: Platform::of_guest(),
            patience: Patience::default(),
            source: None,
            attestation_agent: AttestationAgent::SOCKET.into(),
            reasons: Reasons::default(),
            policy: None,
        }
    }
}

/// An image that is in the store, and stays there while this is held.
#[derive(Debug)]
pub struct Fetched {
    /// The image as its caller names it.
    name: String,
    image: ImageReference,
    verified: Image,
    layers: Vec<Layer>,
    /// How long it took.
    time: Duration,
}

/// Pulls images into one store.
#[derive(Debug)]
pub struct Puller {
    layers: Layers,
    documents: Documents,
    policies: PolicyPlace,
    secrets: Arc<Secrets>,
    event_log: Arc<EventLog>,
    known_accounts: Arc<KnownAccounts>,
    plain_hosts: Arc<PlainHosts>,
    options: Options,
    /// Held from the check of a bundle until the image is mounted in it, so that of two pulls into
    /// one bundle the second one sees the first.
    mounting: Arc<Mutex<()>>,
}

impl Puller {
    /// A puller for a store; the documents are read anew for every pull.
    pub fn new(store: Arc<Store>, documents: Documents, options: Options) -> Self {
        Self {
            layers: Layers {
                store,
                flights: Flights::default(),
                budget: Budget::default(),
                ahead: Ahead::default(),
            },
            policies: PolicyPlace::of(&documents, options.policy.clone()),
            documents,
            secrets: Secrets::new(options.source.clone(), options.reasons.clone()).into(),
            event_log: EventLog::new(&options.attestation_agent).into(),
            known_accounts: Arc::default(),
            plain_hosts: Arc::default(),
            options,
            mounting: Arc::default(),
        }
    }

    /// A puller for another store of the same service. What belongs to the service is one for both:
    /// what the CDH said, what the event log has, how much is read ahead, how many layers are
    /// unpacked at a time.
    #[must_use]
    pub fn with_store(&self, store: Arc<Store>) -> Self {
        Self {
            layers: Layers {
                store,
                // They end in a store.
                flights: Flights::default(),
                ahead: Ahead::default(),
                ..self.layers.clone()
            },
            documents: self.documents.clone(),
            policies: self.policies.clone(),
            secrets: self.secrets.clone(),
            event_log: self.event_log.clone(),
            known_accounts: self.known_accounts.clone(),
            plain_hosts: self.plain_hosts.clone(),
            options: self.options.clone(),
            mounting: self.mounting.clone(),
        }
    }

    /// Pulls an image, mounts it in a bundle and gives the digest of its manifest for this
    /// platform. On an error nothing is mounted, nor when the future is dropped. `time` is how long
    /// the caller waits: so long is asked for what does not come.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn pull(
        self: &Arc<Self>,
        name: &str,
        bundle: &str,
        time: Duration,
    ) -> Result<Digest, Error> {
        let bundle = Bundle::parse(bundle)?;
        let watch = Watch::new(name, silent);
        let fetched = self.clone().fetch_image(name.to_owned(), time, watch.into()).await?;
        self.mount(fetched, bundle).await
    }

    /// Brings an image into the store, by nothing but what it owns: a task may do it whose caller
    /// is gone. Who mounts the result has asked for it in the same way.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn fetch_image(
        self: Arc<Self>,
        name: String,
        time: Duration,
        watch: Arc<Watch>,
    ) -> Result<Fetched, Error> {
        let started = Instant::now();
        let named = NamedReference::parse(&name)?;
        let settings = self.settings().await?;
        let asked = Asked::of_content(&named, &settings)?;
        let manner = Manner {
            patience: Patience { budget: time, ..self.options.patience },
            watch: &watch,
            may_be_unpinned: false,
        };
        // Boxed, for the compiler has a limit to how deep futures are nested.
        let brought = Box::pin(self.bring(&asked, &settings, manner));
        let Brought { image, verified, layers } = brought.await?;
        Ok(Fetched { name, image, verified, layers, time: started.elapsed() })
    }

    /// Mounts what was fetched in a bundle, and gives the digest of its manifest.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn mount(&self, fetched: Fetched, bundle: Bundle) -> Result<Digest, Error> {
        let started = Instant::now();
        let Fetched { name, image, verified, layers, time } = fetched;
        let manifest = verified.manifest;
        self.event_log.pull(&name, &manifest).await?;
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
            fetched_ms = time.as_millis(), total_ms = (time + started.elapsed()).as_millis(),
            "mounted"
        );
        Ok(manifest)
    }

    /// Waits until nothing is left of the layers on their way that nobody wants any more, so that
    /// they keep nothing in the store.
    pub async fn quiet(&self) {
        self.layers.quiet().await;
    }

    /// The documents as they are now. That of the host is in the event log before anything is done
    /// with it.
    ///
    /// # Errors
    ///
    /// As those of [`Documents::load`], and where the event log does not get the document.
    pub async fn settings(&self) -> Result<Settings, Error> {
        let documents = self.documents.clone();
        let settings = blocking(move || Ok(documents.load()?)).await?;
        self.begin(&settings).await?;
        Ok(settings)
    }

    /// What comes before anything is done with the documents.
    async fn begin(&self, settings: &Settings) -> Result<(), Error> {
        self.event_log.document(settings).await?;
        clock::check()
    }
}
