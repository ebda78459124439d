//! A pull as a bar, for people at a terminal.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use oci_image::digest::Digest;

use crate::progress::Event;

/// Bytes of the whole image, how fast they come, and how many layers are done.
const TEMPLATE: &str = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg}";

/// The bar that log lines have to leave alone.
static SHOWN: OnceLock<ProgressBar> = OnceLock::new();

/// The bar. Gone from the screen when all of its clones are dropped.
#[derive(Clone, Debug)]
pub struct Meter(Arc<State>);

#[derive(Debug)]
struct State {
    bar: ProgressBar,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    layers: usize,
    done: usize,
    /// Of each layer. A transfer that begins again takes its own bytes back, and nothing else.
    received: HashMap<Digest, (u64, u64)>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Meter {
    /// Shows the bar on standard error.
    pub fn show() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_message("asking the registry");
        bar.enable_steady_tick(std::time::Duration::from_millis(250));
        let _ = SHOWN.set(bar.clone());
        let counts = Mutex::default();
        Self(Arc::new(State { bar, counts }))
    }

    /// Moves on.
    pub fn tell(&self, event: &Event) {
        let bar = &self.0.bar;
        let mut counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Resolved { layers, bytes, .. } => {
                counts.layers = *layers;
                bar.set_length(*bytes);
            }
            Event::Started { blob, bytes, .. } => {
                counts.received.insert(blob.clone(), (0, *bytes));
            }
            Event::Received {
                blob,
                received_bytes,
            } => {
                if let Some((received, _)) = counts.received.get_mut(blob) {
                    *received = *received_bytes;
                }
            }
            Event::Shared { blob, bytes } => {
                counts.received.insert(blob.clone(), (*bytes, *bytes));
                counts.done += 1;
            }
            Event::Unpacked { blob, .. } => {
                if let Some((received, bytes)) = counts.received.get_mut(blob) {
                    *received = *bytes;
                }
                counts.done += 1;
            }
            Event::SourceFailed { .. } | Event::Unlocked { .. } => return,
        }
        bar.set_position(counts.received.values().map(|(received, _)| received).sum());
        bar.set_message(format!("{}/{} layers", counts.done, counts.layers));
    }
}

/// Where log lines go: standard error, above the bar if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let write = || io::stderr().write(line);
        SHOWN.get().map_or_else(write, |bar| bar.suspend(write))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
