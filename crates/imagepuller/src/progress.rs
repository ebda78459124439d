//! The events of a pull, for whoever watches it.

use std::sync::Arc;

use oci_image::digest::Digest;
use serde::{Serialize, Serializer};

/// Something happened. The digests are those of blobs as the manifest names them; sizes are in
/// bytes. As JSON it is what `imagepuller pull --json` prints.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Event {
    /// The manifests are verified, so what is left to do is known.
    Resolved {
        /// Digest of this platform's manifest.
        #[serde(rename = "manifestDigest", serialize_with = "text")]
        manifest: Digest,
        /// Number of layers; one that the image names twice counts once.
        layers: usize,
        /// Compressed size of all layers.
        bytes: u64,
    },
    /// The key of an encrypted layer was found.
    Unlocked {
        /// The layer's blob.
        #[serde(serialize_with = "text")]
        blob: Digest,
        /// With what, in words; no key material.
        how: String,
    },
    /// A layer is in the store already, or somebody else has just put it there.
    Shared {
        /// The layer's blob.
        #[serde(serialize_with = "text")]
        blob: Digest,
        /// Its size.
        bytes: u64,
    },
    /// A layer is being fetched.
    Started {
        /// The layer's blob.
        #[serde(serialize_with = "text")]
        blob: Digest,
        /// Its size.
        bytes: u64,
        /// Host and port that it comes from.
        host: String,
    },
    /// More of a layer came.
    Received {
        /// The layer's blob.
        #[serde(serialize_with = "text")]
        blob: Digest,
        /// How much of the layer has arrived.
        received_bytes: u64,
    },
    /// A layer is verified and unpacked.
    Unpacked {
        /// The layer's blob.
        #[serde(serialize_with = "text")]
        blob: Digest,
        /// Size of its archive.
        plain_bytes: u64,
        /// Entries of its archive.
        entries: u64,
    },
    /// A source failed, and the next one is asked.
    SourceFailed {
        /// Which, such as `mirror mirror.corp`.
        source: String,
        /// Why.
        error: String,
    },
}

fn text<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(digest)
}

/// The receiver of events.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(Event) + Send + Sync>);

impl Progress {
    /// Calls a function for each event, from any thread; it is not to block.
    pub fn new(tell: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Passes an event on.
    pub fn tell(&self, event: Event) {
        (self.0)(event);
    }
}

impl Default for Progress {
    /// Drops every event.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}
