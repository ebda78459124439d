//! Why the settings cannot be used.

use std::path::PathBuf;

use crate::host_file::FileError;

/// Why the settings cannot be used, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file or the directory of drop-ins cannot be read.
    #[error("read the settings {0}")]
    File(#[from] FileError),
    /// A file says something that is not understood.
    #[error("read the settings {}{}: {rule}", path.display(), at_line(*line))]
    Text {
        /// The settings file or drop-in.
        path: PathBuf,
        /// The line, or 0 where the rule concerns no single one.
        line: usize,
        /// The broken rule.
        rule: String,
    },
}

impl SettingsError {
    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::File(error) => error.remedy(),
            Self::Text { .. } => {
                "correct this file on the node; the project's docs/configuration.md describes its \
                keys"
            }
        }
    }
}

fn at_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}
