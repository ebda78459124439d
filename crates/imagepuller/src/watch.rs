//! One watch for each pull: what it is doing, as the log, `imagepuller status` and the bar at a
//! terminal show it; the answer to "why ContainerCreating?" in the guest.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use foreign_text::shown;
use layer_unpack::Unpacked;
use oci_image::digest::Digest;
use oci_image::manifest::Descriptor;
use registry_client::LastFailure;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;
use crate::service::answer::said;

/// How often the log says where a pull is.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// How often an event tells how much of a layer has arrived, at most.
const TOLD_EVERY: Duration = Duration::from_millis(250);

/// The most of an image's name that is repeated.
const MAX_SHOWN_CHARS: usize = 512;

/// A receiver of events, from any thread: the objects that `imagepuller pull --json` prints.
pub type Tell = fn(&Value);

/// Drops an event.
pub fn silent(_: &Value) {}

/// The pulls that are under way.
#[derive(Clone, Debug, Default)]
pub struct Watches(Arc<Mutex<Vec<Weak<Watch>>>>);

/// One pull.
#[derive(Debug)]
pub struct Watch {
    image: String,
    started: Instant,
    /// What it waits for.
    pub last: LastFailure,
    /// Passed on by itself too: what outlasts the pull is not to keep it in the list.
    pub tell: Tell,
    state: Mutex<State>,
}

/// How far it is.
#[derive(Debug, Default)]
struct State {
    /// Whether its caller is gone.
    is_left: bool,
    /// Nothing until the manifests are there.
    total: Option<(usize, u64)>,
    layers: HashMap<Digest, Arc<LayerWatch>>,
    /// What came of layers that were begun anew: theirs whose pull failed, and of an attempt before.
    former: Vec<Arc<LayerWatch>>,
    /// What hosts had sent in vain of layers that were on their way before this pull joined.
    before: BTreeMap<String, u64>,
}

/// One layer. All pulls that wait for it look at the same.
#[derive(Debug)]
pub struct LayerWatch {
    blob: Digest,
    bytes: u64,
    tell: Tell,
    transfer: Mutex<Transfer>,
}

/// How far it is.
#[derive(Debug, Default)]
struct Transfer {
    host: String,
    received: u64,
    is_done: bool,
    told: Option<Instant>,
    /// What hosts sent before it was begun anew, at the same host or at another one.
    given_up: BTreeMap<String, u64>,
}

/// A pull as it is shown. Sizes are compressed bytes; no name is a secret.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The image, as its caller names it.
    pub image: String,
    /// Since it began.
    pub seconds: u64,
    /// Whether somebody waits for it.
    pub has_caller: bool,
    /// Number of layers, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<usize>,
    /// How many of them are there.
    pub layers_done: usize,
    /// Size of all layers, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How much of that is there.
    pub received_bytes: u64,
    /// How much came from which host during this pull.
    pub sources: BTreeMap<String, u64>,
    /// The failure after which is asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

impl Watches {
    /// A pull that begins, which the log says.
    pub fn begin(&self, image: &str) -> Arc<Watch> {
        let watch = Arc::new(Watch::new(image, silent));
        tracing::info!(image = watch.image, "pull begins");
        let mut all = self.lock();
        all.retain(|watch| watch.strong_count() > 0);
        all.push(Arc::downgrade(&watch));
        watch
    }

    /// All of them, the oldest first.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let all: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().map(|watch| watch.snapshot()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Watch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// A pull of an image that begins.
    pub fn new(image: &str, tell: Tell) -> Self {
        let image = shown(image).up_to(MAX_SHOWN_CHARS).to_string();
        let (last, state) = (LastFailure::default(), Mutex::default());
        Self { image, started: Instant::now(), last, tell, state }
    }

    /// Does the pull's work, and says in the log each ten seconds where it is, and how it ends.
    pub async fn log<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut work = std::pin::pin!(self.last.of(work));
        loop {
            match tokio::time::timeout(SAID_EVERY, &mut work).await {
                Ok(result) => {
                    self.ended(result.as_ref().err());
                    return result;
                }
                Err(_) => self.say(),
            }
        }
    }

    /// The caller is gone. The fetch may go on.
    pub fn caller_gone(&self, why: &str) {
        if !std::mem::replace(&mut self.state().is_left, true) {
            let seconds = self.started.elapsed().as_secs();
            tracing::info!(image = self.image, seconds, "{why}");
        }
    }

    /// The manifests are verified, so what is left to do is known. A layer that the image names
    /// twice counts once.
    pub fn resolved(&self, manifest: &Digest, layers: usize, bytes: u64) {
        self.state().total = Some((layers, bytes));
        let manifest = manifest.to_string();
        (self.tell)(&json!({
            "event": "resolved", "manifestDigest": manifest, "layers": layers, "bytes": bytes,
        }));
    }

    /// A layer that this pull begins to bring.
    pub fn layer(&self, blob: &Descriptor) -> Arc<LayerWatch> {
        let layer = Arc::new(LayerWatch::new(blob, self.tell));
        self.join(&layer);
        layer
    }

    /// A layer that is on its way already.
    pub fn join(&self, layer: &Arc<LayerWatch>) {
        let mut state = self.state();
        for (host, bytes) in &layer.transfer().given_up {
            *state.before.entry(host.clone()).or_default() += bytes;
        }
        let former = state.layers.insert(layer.blob.clone(), layer.clone());
        state.former.extend(former);
    }

    /// Whether a host has sent any of a layer.
    pub fn has_received(&self) -> bool {
        self.snapshot().sources.values().any(|bytes| *bytes > 0)
    }

    /// As it is now.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state();
        let mut snapshot = Snapshot {
            image: self.image.clone(),
            seconds: self.started.elapsed().as_secs(),
            has_caller: !state.is_left,
            layers: state.total.map(|(layers, _)| layers),
            layers_done: 0,
            bytes: state.total.map(|(_, bytes)| bytes),
            received_bytes: 0,
            sources: BTreeMap::new(),
            waits_for: self.last.text(),
        };
        for layer in state.layers.values() {
            let transfer = layer.transfer();
            snapshot.layers_done += usize::from(transfer.is_done);
            snapshot.received_bytes += transfer.received;
        }
        for layer in state.layers.values().chain(&state.former) {
            let transfer = layer.transfer();
            let current = (&transfer.host, &transfer.received);
            for (host, bytes) in transfer.given_up.iter().chain([current]) {
                if !host.is_empty() {
                    *snapshot.sources.entry(host.clone()).or_default() += bytes;
                }
            }
        }
        for (host, bytes) in &state.before {
            let sent = snapshot.sources.remove(host).unwrap_or_default().saturating_sub(*bytes);
            if sent > 0 {
                snapshot.sources.insert(host.clone(), sent);
            }
        }
        snapshot
    }

    fn say(&self) {
        let now = self.snapshot();
        tracing::info!(
            image = now.image,
            seconds = now.seconds,
            layers = now.layers.unwrap_or_default(),
            layers_done = now.layers_done,
            bytes = now.bytes.unwrap_or_default(),
            received_bytes = now.received_bytes,
            waits_for = now.waits_for,
            "pull goes on"
        );
    }

    /// The image is in the store, or will not come.
    fn ended(&self, error: Option<&Error>) {
        let now = self.snapshot();
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let by_source: Vec<_> = now
            .sources
            .iter()
            .map(|(host, &bytes)| {
                let rate = bytes.saturating_mul(1000) / ms.max(1);
                format!("{host} {bytes} bytes at {rate} bytes/s")
            })
            .collect();
        let sources = by_source.join(", ");
        let (image, bytes) = (&now.image, now.received_bytes);
        match error {
            None => tracing::info!(image, ms, bytes, sources, "fetched"),
            // The answer to the caller says it, where there is one.
            Some(error) if !now.has_caller => {
                let error = said(error, self.image.contains('@'));
                tracing::warn!(image, ms, bytes, sources, error, "not fetched");
            }
            Some(_) => tracing::info!(image, ms, bytes, sources, "not fetched"),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LayerWatch {
    /// A layer of which nothing has come.
    pub fn new(blob: &Descriptor, tell: Tell) -> Self {
        Self { blob: blob.digest.clone(), bytes: blob.size, tell, transfer: Mutex::default() }
    }

    /// It is being fetched from a host and port. Whoever had it before was stopped.
    pub fn started(&self, host: &str) {
        let mut transfer = self.transfer();
        transfer.is_done = false;
        let before = std::mem::replace(&mut transfer.host, host.to_owned());
        let received = std::mem::take(&mut transfer.received);
        if received > 0 {
            *transfer.given_up.entry(before).or_default() += received;
        }
        self.tell(json!({"event": "started", "bytes": self.bytes, "host": host}));
    }

    /// So much of it has arrived.
    pub fn received(&self, bytes: u64) {
        let mut transfer = self.transfer();
        transfer.received = bytes;
        if transfer.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            transfer.told = Some(Instant::now());
            self.tell(json!({"event": "received", "receivedBytes": bytes}));
        }
    }

    /// It is in the store already, or somebody else has just put it there.
    pub fn shared(&self) {
        self.done(json!({"event": "shared", "bytes": self.bytes}));
    }

    /// It is verified and unpacked.
    pub fn unpacked(&self, unpacked: &Unpacked) {
        let Unpacked { plain_bytes, entries, .. } = unpacked;
        self.done(json!({"event": "unpacked", "plainBytes": plain_bytes, "entries": entries}));
    }

    fn done(&self, event: Value) {
        let mut transfer = self.transfer();
        transfer.received = self.bytes;
        transfer.is_done = true;
        self.tell(event);
    }

    fn tell(&self, mut event: Value) {
        event["blob"] = self.blob.to_string().into();
        (self.tell)(&event);
    }

    fn transfer(&self) -> MutexGuard<'_, Transfer> {
        self.transfer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} s, ", self.image, self.seconds)?;
        match (self.layers, self.bytes) {
            (Some(layers), Some(bytes)) => {
                let (done, received) = (self.layers_done, self.received_bytes);
                write!(f, "{done} of {layers} layers, {received} of {bytes} bytes")?;
            }
            _ => f.write_str("asking for the manifest")?,
        }
        for (host, bytes) in &self.sources {
            write!(f, ", {bytes} from {host}")?;
        }
        if !self.has_caller {
            f.write_str(", nobody waits for it")?;
        }
        if let Some(failure) = &self.waits_for {
            write!(f, ", asking again after: {failure}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(digit: char, size: u64) -> Descriptor {
        let digest = format!("sha256:{}", digit.to_string().repeat(64));
        serde_json::from_value(json!({"digest": digest, "size": size})).unwrap()
    }

    fn unpacked() -> Unpacked {
        Unpacked { entries: 1, plain_bytes: 100, hides: false, implied: Default::default() }
    }

    /// A layer that a mirror broke off once took the mirror's bytes out of the account.
    #[test]
    fn each_source_has_the_bytes_that_it_sent() {
        let watches = Watches::default();
        let watch = watches.begin("r.corp/a:1");
        let text = || watches.snapshots()[0].to_string();
        assert_eq!(text(), "r.corp/a:1: 0 s, asking for the manifest");
        watch.resolved(&blob('0', 0).digest, 3, 35);
        let (a, b) = (watch.layer(&blob('a', 10)), watch.layer(&blob('b', 20)));
        a.started("mirror");
        a.received(7);
        a.started("r.corp");
        a.received(4);
        b.started("r.corp");
        b.received(12);
        watch.layer(&blob('c', 5)).shared();
        assert_eq!(
            text(),
            "r.corp/a:1: 0 s, 1 of 3 layers, 21 of 35 bytes, 7 from mirror, 16 from r.corp"
        );
        a.unpacked(&unpacked());
        b.unpacked(&unpacked());
        watch.caller_gone("the caller hung up");
        assert_eq!(
            text(),
            "r.corp/a:1: 0 s, 3 of 3 layers, 35 of 35 bytes, 7 from mirror, 30 from r.corp, nobody \
            waits for it"
        );
    }

    /// A pull that came when a layer was unpacked and not handed on yet had all of its layers but
    /// that one, until its end. One that has to bring the layer of a pull that failed has it once.
    #[test]
    fn who_comes_late_sees_the_same_layer() {
        let [first, late] = ["r.corp/a:1", "r.corp/b:1"].map(|image| Watch::new(image, silent));
        let layer = first.layer(&blob('a', 10));
        layer.started("mirror");
        layer.received(7);
        late.join(&layer);
        assert_eq!((late.snapshot().received_bytes, late.has_received()), (7, true));
        layer.unpacked(&unpacked());
        assert_eq!((late.snapshot().layers_done, late.snapshot().received_bytes), (1, 10));
        let again = late.layer(&blob('a', 10));
        again.started("r.corp");
        again.received(3);
        let now = late.snapshot();
        assert_eq!((now.layers_done, now.received_bytes), (0, 3));
        assert_eq!(now.sources, [("mirror".to_owned(), 10), ("r.corp".to_owned(), 3)].into());
        // What a mirror had sent in vain is none of a later pull's.
        again.started("mirror");
        let last = Watch::new("r.corp/c:1", silent);
        last.join(&again);
        assert!(!last.has_received());
    }

    /// Another pull's layer that it waited for kept it in the list.
    #[test]
    fn a_pull_that_has_ended_is_not_shown() {
        let watches = Watches::default();
        let watch = watches.begin("r.corp/a:1");
        let layer = watch.layer(&blob('a', 1));
        drop(watch);
        assert_eq!(watches.snapshots(), []);
        layer.received(1);
    }
}
