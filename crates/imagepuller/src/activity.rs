//! What a pull is doing, for the log and for `imagepuller status`: the answer to "why
//! ContainerCreating?" in the guest.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use foreign_text::shown;
use oci_image::digest::Digest;
use registry_client::LastFailure;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::progress::{Event, Progress};
use crate::service::answer::said;

/// How often the log says where a pull is.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// The most of an image's name that is repeated.
const MAX_SHOWN_CHARS: usize = 512;

/// The pulls that are under way.
#[derive(Clone, Debug, Default)]
pub struct Activities(Arc<Mutex<Vec<Weak<Activity>>>>);

/// One pull.
#[derive(Debug)]
pub struct Activity {
    image: String,
    started: Instant,
    last: LastFailure,
    has_caller: AtomicBool,
    state: Mutex<State>,
}

/// How far it is.
#[derive(Debug, Default)]
struct State {
    /// Nothing until the manifests are there.
    total: Option<(usize, u64)>,
    done: usize,
    layers: HashMap<Digest, Transfer>,
    /// What hosts sent of layers that were begun anew, at the same host or at another one.
    given_up: BTreeMap<String, u64>,
}

/// One layer.
#[derive(Debug, Default)]
struct Transfer {
    host: String,
    bytes: u64,
    received: u64,
    is_done: bool,
}

/// A pull as it is shown. Sizes are compressed bytes; no name is a secret.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
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

impl Activities {
    /// A pull that begins, which the log says.
    pub fn begin(&self, image: &str, last: LastFailure) -> Arc<Activity> {
        let activity = Arc::new(Activity {
            image: shown(image).up_to(MAX_SHOWN_CHARS).to_string(),
            started: Instant::now(),
            last,
            has_caller: AtomicBool::new(true),
            state: Mutex::default(),
        });
        tracing::info!(image = activity.image, "pull begins");
        let mut all = self.lock();
        all.retain(|activity| activity.strong_count() > 0);
        all.push(Arc::downgrade(&activity));
        activity
    }

    /// All of them, the oldest first.
    pub fn shown(&self) -> Vec<Shown> {
        let all: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().map(|activity| activity.shown()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Activity>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Activity {
    /// Where the events of the pull go. A layer that another pull has begun may outlast this one,
    /// and tells nobody then.
    pub fn progress(self: &Arc<Self>) -> Progress {
        let activity = Arc::downgrade(self);
        Progress::new(move |event| {
            if let Some(activity) = activity.upgrade() {
                activity.tell(&event);
            }
        })
    }

    /// Does the pull's work, and says in the log each ten seconds where it is, and how it ends.
    pub async fn watch<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut work = std::pin::pin!(work);
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
        if self.has_caller.swap(false, Ordering::Relaxed) {
            let seconds = self.started.elapsed().as_secs();
            tracing::info!(image = self.image, seconds, "{why}");
        }
    }

    /// Whether a host has sent any of a layer.
    pub fn has_received(&self) -> bool {
        self.shown().sources.values().any(|bytes| *bytes > 0)
    }

    /// As it is now.
    pub fn shown(&self) -> Shown {
        let state = self.state();
        let mut sources = state.given_up.clone();
        for layer in state.layers.values().filter(|layer| !layer.host.is_empty()) {
            *sources.entry(layer.host.clone()).or_default() += layer.received;
        }
        Shown {
            image: self.image.clone(),
            seconds: self.started.elapsed().as_secs(),
            has_caller: self.has_caller.load(Ordering::Relaxed),
            layers: state.total.map(|(layers, _)| layers),
            layers_done: state.done,
            bytes: state.total.map(|(_, bytes)| bytes),
            received_bytes: state.layers.values().map(|layer| layer.received).sum(),
            sources,
            waits_for: self.last.text(),
        }
    }

    fn say(&self) {
        let shown = self.shown();
        tracing::info!(
            image = shown.image,
            seconds = shown.seconds,
            layers = shown.layers.unwrap_or_default(),
            layers_done = shown.layers_done,
            bytes = shown.bytes.unwrap_or_default(),
            received_bytes = shown.received_bytes,
            waits_for = shown.waits_for,
            "pull goes on"
        );
    }

    /// The image is in the store, or will not come.
    fn ended(&self, error: Option<&Error>) {
        let shown = self.shown();
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let by_source: Vec<_> = shown
            .sources
            .iter()
            .map(|(host, &bytes)| {
                let rate = bytes.saturating_mul(1000) / ms.max(1);
                format!("{host} {bytes} bytes at {rate} bytes/s")
            })
            .collect();
        let sources = by_source.join(", ");
        let (image, bytes) = (&shown.image, shown.received_bytes);
        match error {
            None => tracing::info!(image, ms, bytes, sources, "fetched"),
            // The answer to the caller says it, where there is one.
            Some(error) if !shown.has_caller => {
                let error = said(error, self.image.contains('@'));
                tracing::warn!(image, ms, bytes, sources, error, "not fetched");
            }
            Some(_) => tracing::info!(image, ms, bytes, sources, "not fetched"),
        }
    }

    fn tell(&self, event: &Event) {
        let mut state = self.state();
        match event {
            Event::Resolved { layers, bytes, .. } => state.total = Some((*layers, *bytes)),
            Event::Started { blob, bytes, host } => {
                let started = Transfer { host: host.clone(), bytes: *bytes, ..Transfer::default() };
                if let Some(before) = state.layers.insert(blob.clone(), started) {
                    // Whoever had it was stopped before it was handed on.
                    state.done -= usize::from(before.is_done);
                    if before.received > 0 {
                        *state.given_up.entry(before.host).or_default() += before.received;
                    }
                }
            }
            Event::Received { blob, received_bytes } => {
                if let Some(layer) = state.layers.get_mut(blob) {
                    layer.received = *received_bytes;
                }
            }
            Event::Shared { blob, bytes } => {
                let layer = state.layers.entry(blob.clone()).or_default();
                layer.received = *bytes;
                state.finish(blob);
            }
            Event::Unpacked { blob, .. } => {
                if let Some(layer) = state.layers.get_mut(blob) {
                    layer.received = layer.bytes;
                }
                state.finish(blob);
            }
            Event::SourceFailed { .. } | Event::Unlocked { .. } => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line.
impl fmt::Display for Shown {
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

impl State {
    /// A layer is there; that is said once more where another pull had begun it.
    fn finish(&mut self, blob: &Digest) {
        if let Some(layer) = self.layers.get_mut(blob) {
            self.done += usize::from(!std::mem::replace(&mut layer.is_done, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(digit: char) -> Digest {
        Digest::parse(&format!("sha256:{}", digit.to_string().repeat(64))).unwrap()
    }

    fn started(digit: char, bytes: u64, host: &str) -> Event {
        Event::Started { blob: blob(digit), bytes, host: host.to_owned() }
    }

    fn received(digit: char, received_bytes: u64) -> Event {
        Event::Received { blob: blob(digit), received_bytes }
    }

    /// A layer that a mirror broke off once took the mirror's bytes out of the account.
    #[test]
    fn each_source_has_the_bytes_that_it_sent() {
        let activities = Activities::default();
        let activity = activities.begin("r.corp/a:1", LastFailure::default());
        let text = || activities.shown()[0].to_string();
        assert_eq!(text(), "r.corp/a:1: 0 s, asking for the manifest");
        let progress = activity.progress();
        progress.tell(Event::Resolved { manifest: blob('0'), layers: 3, bytes: 35 });
        for event in [
            started('a', 10, "mirror"),
            received('a', 7),
            started('a', 10, "r.corp"),
            received('a', 4),
            started('b', 20, "r.corp"),
            received('b', 12),
            Event::Shared { blob: blob('c'), bytes: 5 },
        ] {
            progress.tell(event);
        }
        assert_eq!(
            text(),
            "r.corp/a:1: 0 s, 1 of 3 layers, 21 of 35 bytes, 7 from mirror, 16 from r.corp"
        );
        for digit in ['a', 'b'] {
            progress.tell(Event::Unpacked { blob: blob(digit), plain_bytes: 100, entries: 1 });
        }
        activity.caller_gone("the caller hung up");
        assert_eq!(
            text(),
            "r.corp/a:1: 0 s, 3 of 3 layers, 35 of 35 bytes, 7 from mirror, 30 from r.corp, nobody \
            waits for it"
        );
    }

    /// Another pull's layer that it waited for kept it in the list.
    #[test]
    fn a_pull_that_has_ended_is_not_shown() {
        let activities = Activities::default();
        let activity = activities.begin("r.corp/a:1", LastFailure::default());
        let progress = activity.progress();
        drop(activity);
        assert_eq!(activities.shown(), []);
        progress.tell(received('a', 1));
    }
}
