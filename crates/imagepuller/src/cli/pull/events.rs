//! A pull as JSON, for programs: one object per line on standard output.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use oci_image::digest::Digest;
use serde_json::{Value, json};

use crate::cli::print;
use crate::progress::Event;

/// How often the progress of a layer is told, at most.
const INTERVAL: Duration = Duration::from_millis(250);

/// Prints events.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mutex<HashMap<Digest, Instant>>>);

impl Events {
    /// Prints one, unless it is too much of the same.
    pub fn tell(&self, event: &Event) {
        if let Event::Received { blob, .. } = event {
            let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            match told.get(blob) {
                Some(last) if now.duration_since(*last) < INTERVAL => return,
                _ => told.insert(blob.clone(), now),
            };
        }
        print(&object(event).to_string());
    }

    /// The last line of a pull that went well.
    pub fn done(&self, manifest: &Digest, output: &Path) {
        let (manifest, output) = (manifest.to_string(), output.to_string_lossy());
        let last = json!({ "event": "done", "manifestDigest": manifest, "output": output });
        print(&last.to_string());
    }

    /// The last line of a pull that did not.
    pub fn failed(&self, message: &str, code: u8) {
        let last = json!({ "event": "failed", "error": message, "exitCode": code });
        print(&last.to_string());
    }
}

fn object(event: &Event) -> Value {
    match event {
        Event::Resolved {
            manifest,
            layers,
            bytes,
        } => {
            json!({ "event": "resolved", "manifestDigest": manifest.to_string(), "layers": layers, "bytes": bytes })
        }
        Event::Unlocked { blob, how } => {
            json!({ "event": "unlocked", "blob": blob.to_string(), "how": how })
        }
        Event::Shared { blob, bytes } => {
            json!({ "event": "shared", "blob": blob.to_string(), "bytes": bytes })
        }
        Event::Started { blob, bytes, host } => {
            json!({ "event": "started", "blob": blob.to_string(), "bytes": bytes, "host": host })
        }
        Event::Received {
            blob,
            received_bytes,
        } => {
            json!({ "event": "received", "blob": blob.to_string(), "receivedBytes": received_bytes })
        }
        Event::Unpacked {
            blob,
            plain_bytes,
            entries,
        } => {
            json!({ "event": "unpacked", "blob": blob.to_string(), "plainBytes": plain_bytes, "entries": entries })
        }
        Event::SourceFailed { source, error } => {
            json!({ "event": "sourceFailed", "source": source, "error": error })
        }
    }
}
