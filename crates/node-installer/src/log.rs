//! How events are printed: one line each on standard error, without a secret in any.

use std::io;

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people: time, level, message.
    #[default]
    Text,
    /// For log collectors: one JSON object with `timestamp`, `level`, `message` and sometimes
    /// `path`.
    Json,
}

/// Starts logging for the whole process; does nothing if somebody did already.
pub fn start(format: Format) {
    let lines =
        tracing_subscriber::fmt().with_writer(io::stderr).with_target(false).with_ansi(false);
    // An error only says that there is a subscriber, whose choices then hold.
    let _ = match format {
        Format::Text => lines.try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
}

/// Logs what ended the installer.
pub fn error(error: &crate::Error) {
    tracing::error!("failed to {error}");
}
