//! Brings one image into the store: first what the owner says of it, then what is there already,
//! then what the sources have.

use std::sync::Arc;

use layer_store::layer::Layer;
use oci_image::digest::Digest;
use oci_image::reference::ImageReference;
use oci_image::search::Image;
use pull_route::{Route, Settings};
use registry_client::Patience;
use tokio::sync::{Notify, OnceCell};

use super::Puller;
use super::asked::{Asked, ImageName};
use super::layers::extent;
use super::policy::Gate;
use super::resolve::{self, Resolved};
use super::sources::Sources;
use super::unlock::{self, Keys, Name};
use crate::blocking::blocking;
use crate::error::{Error, chain};
use crate::watch::Watch;

/// How one image is brought.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'m> {
    /// How long registries are waited for.
    pub patience: Patience,
    /// What is seen of it.
    pub watch: &'m Watch,
    /// Whether what the registry has under a tag will do, where nothing vouches for it.
    pub may_be_unpinned: bool,
}

/// An image that is in the store.
#[derive(Debug)]
pub struct Brought {
    pub image: ImageReference,
    pub verified: Image,
    pub layers: Vec<Layer>,
}

/// The way to the sources of one pull, taken when it is needed.
struct Way<'w> {
    puller: &'w Puller,
    settings: &'w Settings,
    asked: &'w Asked,
    manner: Manner<'w>,
    taken: OnceCell<(Settings, Arc<Sources>)>,
}

impl Way<'_> {
    /// The sources, and the settings with what was given by reference.
    async fn take(&self) -> Result<&(Settings, Arc<Sources>), Error> {
        let take = || async {
            let (puller, name) = (self.puller, self.asked.name.reference());
            let (registry, repository) = (name.registry(), name.repository());
            let settings = self.settings.clone();
            let route = puller.secrets.settle(settings, registry, repository).await?;
            let sources = puller.sources(&route, repository, self.manner);
            Ok((route.settings, sources))
        };
        self.taken.get_or_try_init(take).await
    }

    /// The image of a name, by its digest.
    async fn resolve(&self, gate: &mut Gate<'_>) -> Result<ImageReference, Error> {
        let image = match &self.asked.image {
            ImageName::Pinned(image) => return Ok(image.clone()),
            ImageName::Tagged(image, _) => image,
        };
        let (_, sources) = self.take().await?;
        let tagged = sources.first(|registry| async { Ok(registry.tag(image.tag()).await?) });
        let (digest, _) = tagged.await?.name_by_content();
        if gate.is_open() {
            tracing::warn!(%image, %digest, "no digest was given, so this one was taken from the \
            registry's word");
        }
        gate.of_digest(&digest, true);
        Ok(image.clone().pin(digest))
    }
}

impl Puller {
    /// An image with its layers in the store. The registry is asked for what is not there, and for
    /// nothing else; what the documents forbid, the image policy, and the keys of encrypted layers,
    /// are checked for what is there, too.
    pub(super) async fn bring(
        &self,
        asked: &Asked,
        settings: &Settings,
        manner: Manner<'_>,
    ) -> Result<Brought, Error> {
        let reference = asked.name.reference();
        let (registry, repository) = (reference.registry(), reference.repository());
        let name = Name { registry, repository };
        let plan = settings.plan(registry, repository)?;
        plan.check_allowed()?;
        let settings_of_plan = plan.settings();
        let gate = Gate::open(&self.policies, settings_of_plan, &self.secrets, asked.name.clone());
        let mut gate = gate.await?;
        if !manner.may_be_unpinned {
            asked.check_tag(&gate)?;
        }
        let is_signed = gate.check(asked.digest()).await?;
        let way = Way { puller: self, settings, asked, manner, taken: OnceCell::new() };
        let image = way.resolve(&mut gate).await?;
        gate.log_accepting();
        let digest = image.digest();
        let watch = manner.watch;
        if let Some(known) = self.known(digest).await? {
            self.admit_known(&known, digest, &gate, &way).await?;
            let keys = self.unlock(&known, name, settings_of_plan, watch);
            let keys = keys.await?;
            let stored = self.layers.stored(&known, &keys, watch).await?;
            let layers = match stored {
                Some(layers) => layers,
                None => {
                    let (_, sources) = way.take().await?;
                    let layers = self.layers.fetch(sources, &known, &keys, watch);
                    layers.await?
                }
            };
            return Ok(Brought { image, verified: known, layers });
        }
        let (settings, sources) = way.take().await?;
        // With a policy nothing of a layer is read before it has spoken.
        let ahead = gate.is_open().then_some(&self.layers);
        let (platform, first) = (&self.options.platform, Notify::new());
        let resolved = resolve::resolve(sources, digest, platform, ahead, &first);
        // Beside the configuration: whoever has the manifest has been told who asks.
        let early = async {
            if !is_signed {
                return Ok(None);
            }
            first.notified().await;
            Ok(gate.ask_early(digest, sources).await)
        };
        let (resolved, early) = tokio::try_join!(resolved, early)?;
        let Resolved { image: verified, documents, begun: _begun } = resolved;
        let contents = &verified.contents;
        let signatures = gate.admit(contents, None, early, async { Ok(&**sources) }).await?;
        let keys = self.unlock(&verified, name, settings, watch);
        let keys = keys.await?;
        let layers = self.layers.fetch(sources, &verified, &keys, watch);
        let layers = layers.await?;
        self.keep(digest.clone(), documents, layers.clone()).await;
        self.keep_signatures(digest, signatures).await;
        Ok(Brought { image, verified, layers })
    }

    /// Whether an image that is in the store may run.
    async fn admit_known(
        &self,
        known: &Image,
        digest: &Digest,
        gate: &Gate<'_>,
        way: &Way<'_>,
    ) -> Result<(), Error> {
        if gate.is_open() {
            return Ok(());
        }
        let (store, of) = (self.layers.store.clone(), digest.clone());
        let signatures = blocking(move || Ok(store.signatures(&of))).await?;
        let sources = async { Ok(&*way.take().await?.1) };
        let signatures = gate.admit(&known.contents, signatures, None, sources).await?;
        self.keep_signatures(digest, signatures).await;
        Ok(())
    }

    /// The image of a digest, if the store has kept what leads to it.
    async fn known(&self, digest: &Digest) -> Result<Option<Image>, Error> {
        let (store, digest) = (self.layers.store.clone(), digest.clone());
        let platform = self.options.platform.clone();
        blocking(move || Ok(resolve::from_store(&store, &digest, &platform))).await
    }

    /// Keeps what led to an image. Without it, the next pull asks the registry.
    async fn keep(&self, digest: Digest, documents: Vec<(Digest, Vec<u8>)>, layers: Vec<Layer>) {
        let store = self.layers.store.clone();
        let kept = blocking(move || Ok(store.keep_documents(&digest, &documents, &layers)?));
        if let Err(error) = kept.await {
            tracing::warn!(error = chain(&error), "the documents of the image are not kept");
        }
    }

    /// Keeps what let an image run. Without it, the next pull asks the registry.
    async fn keep_signatures(&self, digest: &Digest, signatures: Option<Vec<u8>>) {
        let Some(signatures) = signatures else {
            return;
        };
        let (store, digest) = (self.layers.store.clone(), digest.clone());
        let kept = blocking(move || Ok(store.keep_signatures(&digest, &signatures)?));
        if let Err(error) = kept.await {
            let error = chain(&error);
            tracing::warn!(error, "the signatures of the image are not kept");
        }
    }

    fn sources(&self, route: &Route, repository: &str, manner: Manner<'_>) -> Arc<Sources> {
        let known = self.known_accounts.clone();
        let (plain, tell) = (&self.plain_hosts, manner.watch.tell);
        let sources = Sources::new(route, repository, manner.patience, tell, known, plain);
        Arc::new(sources)
    }

    /// The keys of an image that is known, and leave to use it.
    async fn unlock(
        &self,
        image: &Image,
        name: Name<'_>,
        settings: &Settings,
        watch: &Watch,
    ) -> Result<Keys, Error> {
        let (layers, bytes) = extent(image);
        watch.resolved(&image.manifest, layers, bytes);
        unlock::unlock(image, name, settings, &self.secrets, watch.tell).await
    }
}
