//! A pull as JSON, for programs: one object per line on standard output.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use oci_image::digest::Digest;
use serde_json::json;

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
        if let Ok(line) = serde_json::to_string(event) {
            print(&line);
        }
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
