//! The ttrpc services: image pulls, and the removal of unused layers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use foreign_text::shown;
use imagepuller_api::message::{
    CollectRequest, CollectResponse, ImagePullRequest, ImagePullResponse,
};
use imagepuller_api::server::{self, ImagePullService, ImageStoreService};
use layer_store::caretaker::Caretaker;
use layer_store::store::Store;
use puller_config::Resources;
use registry_client::{Documents, LastFailure};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedRwLockReadGuard, RwLock};
use ttrpc::Code;
use ttrpc::r#async::{Server, TtrpcContext};

use crate::blocking::blocking;
use crate::collection;
use crate::error::{Error, Kind, chain};
use crate::forward::Others;
use crate::forward::front::Front;
use crate::notify;
use crate::pull::{Options, Puller};
use crate::refresher::Refresher;
use crate::socket::Listening;
use crate::store_mount;

/// The most of an image's name that is repeated in a message.
const MAX_SHOWN_CHARS: usize = 512;

/// How much of a caller's deadline is kept for the answer, at most.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(1);

/// How long running pulls may take to end: what service managers grant by default is 90 s, Kata's
/// guests less.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How long after the last pull its memory is given back: threads that end with it have ended by
/// then.
const TRIM_DELAY: Duration = Duration::from_millis(500);

/// What to serve with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory for layers.
    pub store: PathBuf,
    /// Why the store's disk cannot be used, which each call is answered with.
    pub scratch_fault: Option<String>,
    /// How many layers of one image are fetched and unpacked at once.
    pub layers_at_once: u8,
    /// Where a file system has to be mounted before the store is used.
    pub store_mount: Option<PathBuf>,
    /// The documents.
    pub documents: Documents,
    /// Sources of secrets that only the guest may see, unless the measured document names some.
    pub resources: Resources,
    /// The text of the initdata, for key brokers; there may be no such file.
    pub initdata: PathBuf,
    /// Socket of the program that has the other services of a confidential data hub.
    pub upstream: Option<PathBuf>,
    /// Socket of the program that reads the configuration disk again when it is asked to.
    pub refresher: Option<PathBuf>,
    /// Socket of the attestation agent, which keeps the event log.
    pub attestation_agent: PathBuf,
}

/// Answers `PullImage` and `Collect`.
#[derive(Debug)]
pub struct Service {
    settings: Settings,
    /// Opened while callers can connect already. One that cannot be opened is tried again for each
    /// call, and the caller learns why. More than one, once something was mounted over the first:
    /// that keeps what its containers use.
    stores: Mutex<Vec<Arc<Open>>>,
    /// Held for reading by each call, so that an end can wait for all of them.
    busy: Arc<RwLock<()>>,
}

/// A store in use.
#[derive(Debug)]
struct Open {
    puller: Puller,
    store: Arc<Store>,
    /// Removes what ended containers leave.
    _caretaker: Caretaker,
}

/// A call that is running. The last one gives memory back to the pod.
struct Running(Option<OwnedRwLockReadGuard<()>>);

impl Drop for Running {
    fn drop(&mut self) {
        let Some(busy) = self.0.take() else {
            return;
        };
        let lock = OwnedRwLockReadGuard::rwlock(&busy).clone();
        drop(busy);
        // While the program ends there may be no runtime any more, and nothing to give back.
        if let (Ok(_), Ok(runtime)) = (lock.try_write(), Handle::try_current()) {
            runtime.spawn(async {
                tokio::time::sleep(TRIM_DELAY).await;
                let _ = tokio::task::spawn_blocking(linux_sys::heap::trim).await;
            });
        }
    }
}

impl Service {
    /// A service whose store is opened by the first call, or before.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            stores: Mutex::default(),
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

    /// The store that the settings' path leads to now.
    async fn open(&self) -> Result<Arc<Open>, Error> {
        if let Some(reason) = &self.settings.scratch_fault {
            return Err(Error::Scratch(reason.clone()));
        }
        if let Some(path) = &self.settings.store_mount {
            store_mount::wait(path).await?;
        }
        let mut stores = self.stores.lock().await;
        let known = stores.clone();
        let here = |open: &Arc<Open>| open.store.is_at_its_path();
        let found = blocking(move || Ok(known.into_iter().find(here))).await?;
        if let Some(open) = found {
            return Ok(open);
        }
        let open = Arc::new(self.open_new().await?);
        if !stores.is_empty() {
            let path = self.settings.store.display();
            tracing::info!(%path, "something was mounted over the image store; using it from now on");
        }
        stores.push(open.clone());
        Ok(open)
    }

    async fn open_new(&self) -> Result<Open, Error> {
        let path = self.settings.store.clone();
        let opened = blocking(move || {
            let store = Arc::new(Store::open(&path)?);
            Ok((store.clone(), Caretaker::start(store)?))
        });
        let (store, caretaker) = opened.await?;
        let options = Options {
            resources: self.settings.resources.clone(),
            attestation_agent: self.settings.attestation_agent.clone(),
            initdata: Some(self.settings.initdata.clone()),
            layers_at_once: self.settings.layers_at_once,
            ..Options::default()
        };
        Ok(Open {
            puller: Puller::new(store.clone(), self.settings.documents.clone(), options),
            store,
            _caretaker: caretaker,
        })
    }

    /// Gets as far as a pull does before it asks a host.
    async fn ready(&self) -> Result<(), Error> {
        self.open().await?.puller.settings().await.map(drop)
    }

    async fn pull(&self, request: &ImagePullRequest) -> Result<String, Error> {
        let open = self.open().await?;
        let pull = || open.puller.pull(&request.image_url, &request.bundle_path);
        let Some(socket) = &self.settings.refresher else {
            return Ok(pull().await?.to_string());
        };
        let refresher = Refresher::new(socket, &self.settings.documents).await?;
        let mut pulled = pull().await;
        if let Err(error) = &pulled
            && error.is_about_documents()
            && refresher.has_another_document().await?
        {
            let error = chain(error);
            tracing::info!(error, "once more, with what the node has by now");
            pulled = pull().await;
        }
        Ok(pulled?.to_string())
    }
}

#[async_trait]
impl ImagePullService for Service {
    /// Ends early, with all its work, when the deadline passes or the caller hangs up.
    async fn pull_image(
        &self,
        context: &TtrpcContext,
        request: ImagePullRequest,
    ) -> ttrpc::Result<ImagePullResponse> {
        let _running = self.running().await;
        match in_time(context, self.pull(&request)).await {
            Ok(manifest_digest) => Ok(ImagePullResponse {
                manifest_digest,
                ..Default::default()
            }),
            Err(error) => {
                let image = shown(&request.image_url).up_to(MAX_SHOWN_CHARS);
                Err(refuse(&format!("pull {image}"), &error))
            }
        }
    }
}

#[async_trait]
impl ImageStoreService for Service {
    async fn collect(
        &self,
        context: &TtrpcContext,
        request: CollectRequest,
    ) -> ttrpc::Result<CollectResponse> {
        let _running = self.running().await;
        let collected = in_time(context, async {
            let store = self.open().await?.store.clone();
            collection::collect(store, Duration::from_secs(request.unused_for_seconds)).await
        });
        let collected = collected
            .await
            .map_err(|error| refuse("remove unused layers", &error))?;
        Ok(CollectResponse {
            layers: collected.layers,
            containers: collected.containers,
            bytes: collected.bytes,
            ..Default::default()
        })
    }
}

/// Gives up in time for the answer that it took too long: the caller's own timer has no words.
async fn in_time<T>(
    context: &TtrpcContext,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match u64::try_from(context.timeout_nano) {
        Ok(deadline) if deadline > 0 => {
            let deadline = Duration::from_nanos(deadline);
            let last = LastFailure::default();
            let timed = tokio::time::timeout(patience(deadline), last.of(work)).await;
            timed.unwrap_or_else(|_| {
                Err(Error::Deadline {
                    seconds: deadline.as_secs(),
                    last: last.text(),
                })
            })
        }
        // No deadline was sent.
        _ => work.await,
    }
}

/// How long a call may take, so that there is time for an answer.
fn patience(deadline: Duration) -> Duration {
    deadline.saturating_sub(MAX_ANSWER_TIME.min(deadline / 10))
}

fn refuse(what: &str, error: &Error) -> ttrpc::Error {
    let message = format!("failed to {what}: {}", chain(error));
    tracing::error!("{message}");
    ttrpc::Error::RpcStatus(ttrpc::get_status(code(error), message))
}

fn code(error: &Error) -> Code {
    match error.kind() {
        _ if error.is_missing() => Code::NOT_FOUND,
        _ if matches!(error, Error::Deadline { .. }) => Code::DEADLINE_EXCEEDED,
        Kind::Request => Code::INVALID_ARGUMENT,
        Kind::Data => Code::FAILED_PRECONDITION,
        Kind::Denied => Code::PERMISSION_DENIED,
        Kind::Unreachable => Code::UNAVAILABLE,
        Kind::Exhausted => Code::RESOURCE_EXHAUSTED,
        Kind::Internal => Code::INTERNAL,
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
    let (mut front, listener) = Front::of_services(others);
    let service = Arc::new(Service::new(settings));
    let mut server = Server::new()
        .add_listener(listener)
        .register_service(server::create_image_pull_service(service.clone()))
        .register_service(server::create_image_store_service(service.clone()));
    let started = server.start().await;
    started.map_err(|error| Error::Internal(error.to_string()))?;
    let paths: Vec<_> = sockets
        .iter()
        .map(|socket| socket.path().to_owned())
        .collect();
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
    let idle = tokio::time::timeout(STOP_TIMEOUT, service.idle());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_leaves_time_for_the_answer() {
        for (deadline_ms, patience_ms) in [(1_200_000, 1_199_000), (10_000, 9_000), (2000, 1800)] {
            let deadline = Duration::from_millis(deadline_ms);
            assert_eq!(patience(deadline), Duration::from_millis(patience_ms));
        }
    }

    #[test]
    fn a_status_says_what_kind_of_failure_it_is() {
        let refused = |status: u16| {
            Error::Registry(registry_client::Error::Refused {
                host: "registry.corp".to_owned(),
                status: status.try_into().unwrap(),
                what: "the manifest".to_owned(),
                meaning: "",
            })
        };
        let deadline = Error::Deadline {
            seconds: 3,
            last: Some("cannot reach registry.corp".to_owned()),
        };
        assert_eq!(
            deadline.to_string(),
            "the caller's deadline of 3 s passed before the image was there; the last attempt: \
            cannot reach registry.corp"
        );
        for (error, expected) in [
            (deadline, Code::DEADLINE_EXCEEDED),
            (refused(404), Code::NOT_FOUND),
            (refused(403), Code::PERMISSION_DENIED),
            (refused(503), Code::UNAVAILABLE),
        ] {
            assert_eq!(code(&error), expected, "{error}");
            let several = vec![("mirror".to_owned(), Arc::new(error))];
            let is_last = code(&Error::Sources(several)) == expected;
            assert!(is_last || expected == Code::DEADLINE_EXCEEDED);
        }
    }
}
