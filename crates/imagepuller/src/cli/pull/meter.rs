//! A pull as a bar, for people at a terminal.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;

use foreign_text::shown;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};

use crate::watch::{Snapshot, Watch};

/// The image, its bytes, how fast they come, how long the rest takes, and how many layers are done.
const TEMPLATE: &str =
    "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left, {msg}";

/// How much of an image's name stands before the bar, so that there is room for one.
const MAX_NAME_CHARS: usize = 40;

/// How often it is looked at how far the pull is.
const LOOK: Duration = Duration::from_millis(50);

/// The bar that log lines have to leave alone.
static SHOWN: OnceLock<ProgressBar> = OnceLock::new();

/// The bar. Gone from the screen when it is dropped.
#[derive(Debug)]
pub struct Meter(ProgressBar);

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
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
        bar.enable_steady_tick(Duration::from_millis(250));
        let _ = SHOWN.set(bar.clone());
        Self(bar)
    }

    /// Moves on as the pull does.
    pub async fn follow(&self, watch: &Watch) -> Infallible {
        loop {
            let now = watch.snapshot();
            if let (Some(layers), Some(bytes)) = (now.layers, now.bytes) {
                self.0.set_length(bytes);
                self.0.set_position(now.received_bytes);
                self.0.set_message(format!("{}/{layers} layers", now.layers_done));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Takes the bar away, and says in a line what came.
    pub fn finish(self, end: &Snapshot) {
        let (name, time) = (self.0.prefix(), self.0.elapsed());
        drop(self);
        let received = end.received_bytes;
        let rate = u128::from(received) * 1000 / time.as_millis().max(1);
        let rate = HumanBytes(u64::try_from(rate).unwrap_or(u64::MAX));
        let (received, time) = (HumanBytes(received), HumanDuration(time));
        let layers = end.layers.unwrap_or_default();
        eprintln!("{name}: {layers} layers, {received} in {time}, {rate}/s");
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
