//! The ttrpc services: image pulls, and what they are doing.
//!
//! - `call`: one call, and the time that it has; `answer`: how a failed one is answered.
//! - `stores`: where layers are put.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use foreign_text::shown;
use imagepuller_api::message::{
    ImagePullRequest, ImagePullResponse, StatusRequest, StatusResponse,
};
use imagepuller_api::server::{self, ImagePullService, ImageStoreService};
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use registry_client::{Documents, Patience};
use registry_config::ResourceSource;
use tokio::sync::RwLock;
use ttrpc::r#async::{Server, TtrpcContext};

use crate::background::Background;
use crate::blocking::blocking;
use crate::bundle::Bundle;
use crate::error::{Error, chain};
use crate::forward::Others;
use crate::forward::front::Front;
use crate::notify;
use crate::pull::asked::Asked;
use crate::reasons::Reasons;
use crate::refresher::Refresher;
use crate::socket::Listening;
use crate::watch::Watches;

pub(crate) mod answer;
pub(crate) mod call;
mod stores;

use answer::refuse;
use call::{Attention, Call, Running, Time};
use stores::{Open, Stores};

/// The most of an image's name that is repeated in a message.
const MAX_SHOWN_CHARS: usize = 512;

/// How long running pulls may take to end: what service managers grant by default is 90 s, Kata's
/// guests less.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How long is waited for what was ended to be gone from the store.
const ROOM_TIMEOUT: Duration = Duration::from_secs(5);

/// Longer than any pause before something is asked for again.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// How long a service waits. The default is the product's; only tests have another one.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long a registry is waited for, and how often; the time of a whole pull is its caller's.
    pub patience: Patience,
    /// How long a fetch goes on whose caller hung up or whose deadline passed: whoever asks for the
    /// image again finds what came. Longer than the kubelet's pause before it asks again.
    pub linger: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { patience: Patience::default(), linger: Duration::from_secs(300) }
    }
}

/// What to serve with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory for layers.
    pub store: PathBuf,
    /// How long it waits, and for what.
    pub timing: Timing,
    /// Where a file system has to be mounted before the store is used.
    pub store_mount: Option<PathBuf>,
    /// The documents.
    pub documents: Documents,
    /// The source of secrets that only the guest may see, unless the measured document names one.
    pub source: Option<ResourceSource>,
    /// Socket of the program that has the other services of a confidential data hub.
    pub upstream: Option<PathBuf>,
    /// Socket of the program that reads the configuration disk again when it is asked to.
    pub refresher: Option<PathBuf>,
    /// Socket of the attestation agent, which keeps the event log.
    pub attestation_agent: PathBuf,
    /// Where it is kept why references gave nothing.
    pub reasons: Reasons,
}

/// Answers `PullImage` and `Status`.
#[derive(Debug)]
pub struct Service {
    settings: Settings,
    stores: Stores,
    background: Background,
    watches: Watches,
    /// Held for reading by each call, so that an end can wait for all of them.
    busy: Arc<RwLock<()>>,
}

impl Service {
    /// A service whose store is opened by the first call, or before.
    pub fn new(settings: Settings) -> Self {
        Self {
            background: Background::new(settings.timing.linger),
            watches: Watches::default(),
            settings,
            stores: Stores::default(),
            busy: Arc::default(),
        }
    }

    /// Waits until no call is running.
    pub async fn idle(&self) {
        drop(self.busy.write().await);
    }

    async fn running(&self) -> Running {
        Running(Some(self.busy.clone().read_owned().await))
    }

    /// Gets as far as a pull does before it asks a host.
    async fn ready(&self) -> Result<(), Error> {
        let open = self.stores.open(&self.settings).await?;
        open.puller.settings().await.map(drop)
    }

    /// The fetch goes on where the caller is gone, and the next one joins it, layer by layer: with
    /// its own reference, keys and account, as any other.
    async fn pull_once(
        &self,
        open: &Open,
        request: &ImagePullRequest,
        call: &Call,
    ) -> Result<Digest, Error> {
        let puller = &open.puller;
        let bundle = Bundle::parse(&request.bundle_path)?;
        let fetch = || async {
            let (image, watch) = (request.image_url.clone(), call.watch.clone());
            // Longer than the caller's deadline, which is to end the call with its own words.
            let time = call.time.given + self.settings.timing.linger + MAX_PAUSE;
            let work = puller.clone().fetch_image(image, time, watch);
            let call = call.clone();
            let work = async move {
                tokio::select! {
                    fetched = call.watch.log(work) => fetched,
                    () = call.anew.notified() => {
                        Err(Error::Internal("the pull began anew".to_owned()))
                    }
                }
            };
            self.background.attend(work).await
        };
        let mut fetched = fetch().await;
        if fetched.as_ref().is_err_and(Error::is_full) && self.give_way(open).await {
            fetched = fetch().await;
        }
        puller.mount(fetched?, bundle).await
    }

    /// Whether the content of an image is known, by the digest in its name or by the owner's pin.
    async fn is_pinned(&self, image: &str) -> bool {
        let (name, documents) = (image.to_owned(), self.settings.documents.clone());
        let has_pin = move || {
            let named = NamedReference::parse(&name)?;
            Ok(Asked::of(&named, &documents.load()?)?.digest().is_some())
        };
        image.contains('@') || blocking(has_pin).await.unwrap_or(false)
    }

    /// Ends fetches without a caller, and removes what they and others left: nobody may ever ask
    /// again for that, and somebody asks for room now. Gives whether there was anything. How large
    /// layers become is known only once they are there, so the room that is made before a pull may
    /// be too little.
    async fn give_way(&self, open: &Open) -> bool {
        let ended = async {
            let has_ended = self.background.end().await;
            if has_ended {
                open.puller.quiet().await;
            }
            has_ended
        };
        // What takes longer is there, and told to end.
        let ended = tokio::time::timeout(ROOM_TIMEOUT, ended).await;
        let has_ended = ended.unwrap_or(true);
        if has_ended {
            tracing::info!("pulls without a caller were ended to make room");
        }
        let store = open.store.clone();
        match blocking(move || Ok(store.collect()?)).await {
            Ok(collected) => has_ended || collected.layers > 0,
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot make room");
                has_ended
            }
        }
    }

    async fn pull(&self, request: &ImagePullRequest, call: &Call) -> Result<String, Error> {
        let open = self.stores.open(&self.settings).await?;
        let pull = || self.pull_once(&open, request, call);
        let Some(socket) = &self.settings.refresher else {
            return Ok(pull().await?.to_string());
        };
        let refresher = Refresher::new(socket, &self.settings.documents).await?;
        let mut first = Box::pin(pull());
        // What may pass is asked for again until the caller's time is over: that is too late.
        let ended = tokio::select! {
            ended = &mut first => Some(ended),
            () = call.waits_for_config() => None,
        };
        let error = match &ended {
            Some(Ok(_)) => None,
            Some(Err(error)) => error.is_about_config().then(|| chain(error)),
            None => call.watch.last.text(),
        };
        if let Some(error) = error
            && !call.watch.has_received()
            && refresher.has_another_document().await?
            // The fetch has gone on meanwhile.
            && !call.watch.has_received()
        {
            tracing::info!(error, "once more, with what the node has by now");
            call.anew.notify_waiters();
            drop(first);
            return Ok(pull().await?.to_string());
        }
        let pulled = match ended {
            Some(ended) => ended,
            None => first.await,
        };
        Ok(pulled?.to_string())
    }
}

#[async_trait]
impl ImagePullService for Service {
    /// Ends early when the deadline passes or the caller hangs up; the fetch goes on for a while.
    async fn pull_image(
        &self,
        context: &TtrpcContext,
        request: ImagePullRequest,
    ) -> ttrpc::Result<ImagePullResponse> {
        let time = Time::of(context);
        let call = Call {
            watch: self.watches.begin(&request.image_url),
            time,
            anew: Arc::default(),
            _running: Arc::new(self.running().await),
        };
        let attention = Attention(Some(call.watch.clone()));
        // Boxed, since the compiler gives up on the layout of what is nested so deeply.
        let pull = Box::pin(self.pull(&request, &call));
        let pulled = time.limit(&call.watch.last, pull).await;
        attention.answered(pulled.as_ref().err());
        match pulled {
            Ok(manifest_digest) => Ok(ImagePullResponse { manifest_digest, ..Default::default() }),
            Err(error) => {
                let image = shown(&request.image_url).up_to(MAX_SHOWN_CHARS);
                let what = format!("pull {image}");
                let is_pinned = self.is_pinned(&request.image_url).await;
                Err(refuse(&what, &error, is_pinned))
            }
        }
    }
}

#[async_trait]
impl ImageStoreService for Service {
    async fn status(&self, _: &TtrpcContext, _: StatusRequest) -> ttrpc::Result<StatusResponse> {
        let pulls = serde_json::to_string(&self.watches.snapshots());
        Ok(StatusResponse { pulls: pulls.unwrap_or_default(), ..Default::default() })
    }
}

/// Serves on sockets until told to stop; then lets running calls end for a while.
///
/// # Errors
///
/// [`Error::Socket`].
pub async fn serve(
    settings: Settings,
    sockets: Vec<Listening>,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let others = match &settings.upstream {
        Some(path) => Others::At(path.clone()),
        None => Others::Absent("start imagepuller with --upstream".to_owned()),
    };
    // Before there is a pull that would wait for it.
    drop(tokio::task::spawn_blocking(registry_client::gather_randomness));
    let (mut front, listener) = Front::of_services(others);
    let service = Arc::new(Service::new(settings));
    let mut server = Server::new()
        .add_listener(listener)
        .register_service(server::create_image_pull_service(service.clone()))
        .register_service(server::create_image_store_service(service.clone()));
    let started = server.start().await;
    started.map_err(|error| Error::Internal(error.to_string()))?;
    let paths: Vec<_> = sockets.iter().map(|socket| socket.path().to_owned()).collect();
    for socket in sockets {
        front.serve(socket)?;
    }
    notify::ready(paths.iter().map(PathBuf::as_path));
    let opening = async {
        // The documents are read for their own sake: faults show at once, and the event log has the
        // host's before a pull.
        if let Err(error) = service.ready().await {
            tracing::error!("cannot pull: {}", chain(&error));
        }
        std::future::pending().await
    };
    tokio::select! {
        () = stop => {}
        () = notify::alive() => {}
        () = opening => {}
        () = front.keep() => {}
    }
    tracing::info!("stopping");
    notify::stopping();
    server.stop_listen().await;
    // New callers are refused at once, instead of waiting for an answer that never comes.
    front.stop();
    let idle = tokio::time::timeout(STOP_TIMEOUT, async {
        service.background.end().await;
        service.idle().await;
    });
    tokio::select! {
        ended = idle => if ended.is_err() {
            tracing::warn!("pulls are still running after {} s and are given \
            up", STOP_TIMEOUT.as_secs());
        },
        () = notify::alive() => {}
    }
    let _ = server.shutdown().await;
    Ok(())
}
