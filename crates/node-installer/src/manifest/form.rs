//! Reading a list: entirely, or only what every version understands.

use serde::Deserialize;

use super::{FORMAT, Listed};

/// As much of a list as every version understands.
#[derive(Deserialize)]
pub(super) struct Form {
    pub(super) format: u32,
    /// Whatever form it has.
    #[serde(default)]
    pub(super) owner: Option<serde_json::Value>,
}

impl Form {
    pub(super) fn of(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| damaged(&error))
    }

    /// Whether a newer version wrote the list.
    pub(super) fn is_newer(&self) -> bool {
        self.format > FORMAT
    }
}

pub(super) fn parse(text: &[u8]) -> Result<Listed, String> {
    let form = Form::of(text)?;
    if form.is_newer() {
        return Err(format!(
            "a newer version wrote it, in format {}; this one knows {FORMAT} at most, and leaves \
            everything as it is. Install that version again, or remove the installation first: \
            uninstall removes what the list proves",
            form.format
        ));
    }
    parse_known(text)
}

/// Reads a list of a format that this version knows.
pub(super) fn parse_known(text: &[u8]) -> Result<Listed, String> {
    serde_json::from_slice(text).map_err(|error| damaged(&error))
}

fn damaged(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!("it is damaged at line {line}, column {column}")
}
