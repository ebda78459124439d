//! A pull as a bar, for people at a terminal.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foreign_text::shown;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use oci_image::digest::Digest;

use crate::progress::Event;

/// The image, its bytes, how fast they come, how long the rest takes, and how many layers are done.
const TEMPLATE: &str =
    "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left, {msg}";

/// How much of an image's name stands before the bar, so that there is room for one.
const MAX_NAME_CHARS: usize = 40;

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
    /// Shows the bar for an image on standard error.
    pub fn show(image: &str) -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_prefix(short(image));
        bar.set_message("asking the registry");
        bar.enable_steady_tick(std::time::Duration::from_millis(250));
        let _ = SHOWN.set(bar.clone());
        let counts = Mutex::default();
        Self(Arc::new(State { bar, counts }))
    }

    /// Takes the bar away at once: what is given up may hold it a little longer.
    pub fn clear(&self) {
        self.0.bar.finish_and_clear();
    }

    /// Takes the bar away, and says in a line what came.
    pub fn finish(&self) {
        let bar = &self.0.bar;
        let (received, time) = (bar.position(), bar.elapsed());
        let counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let name = bar.prefix();
        self.clear();
        let rate = u128::from(received) * 1000 / time.as_millis().max(1);
        let layers = counts.layers;
        let rate = HumanBytes(u64::try_from(rate).unwrap_or(u64::MAX));
        let (received, time) = (HumanBytes(received), HumanDuration(time));
        eprintln!("{name}: {layers} layers, {received} in {time}, {rate}/s");
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
            Event::Received { blob, received_bytes } => {
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

/// The end of a name, where its repository and its digest's beginning are.
fn short(image: &str) -> String {
    let (name, digest) = image.rsplit_once("@sha256:").unwrap_or((image, ""));
    let name = match digest.get(..8) {
        Some(beginning) => format!("{name}@{beginning}"),
        None => name.to_owned(),
    };
    let name = shown(&name).to_string();
    let over = name.chars().count().saturating_sub(MAX_NAME_CHARS);
    match over {
        0 => name,
        _ => format!("…{}", name.chars().skip(over + 1).collect::<String>()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leaves_room_for_the_bar() {
        let digest = format!("@sha256:{}", "0123456789abcdef".repeat(4));
        for (image, expected) in [
            (format!("reg.corp/a{digest}"), "reg.corp/a@01234567".to_owned()),
            ("reg.corp/a:1".to_owned(), "reg.corp/a:1".to_owned()),
            ("a\u{1b}[2J".to_owned(), "a\\u{1b}[2J".to_owned()),
            (
                format!("registry.corp:5000/team/service/application{digest}"),
                "…:5000/team/service/application@01234567".to_owned(),
            ),
        ] {
            assert_eq!(short(&image), expected);
        }
    }
}
