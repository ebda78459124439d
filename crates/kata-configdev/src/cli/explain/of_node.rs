//! The node's document, where nobody names another.

use std::path::PathBuf;

use serde::Serialize;

use super::Row;
use crate::choice;
use crate::cli::finding::Input;
use crate::cli::{CommandError, UsageError};
use crate::node_root::NodeRoot;
use crate::sandbox_spec::Pod;
use crate::settings::Settings;

/// Which document it is, and who says so.
#[derive(Serialize)]
pub(super) struct OfNode {
    pub(super) path: PathBuf,
    /// The settings file.
    settings: PathBuf,
}

impl OfNode {
    /// The document that every pod gets that names none, by the settings file `path`.
    pub(super) fn find(path: PathBuf) -> Result<(Self, Input), CommandError> {
        let settings = Settings::load(&path)?;
        let chosen = match settings.is_by_namespace() {
            true => None,
            false => choice::choose(&NodeRoot::open(None)?, &settings, &Pod::default())?,
        };
        let Some(file) = chosen else {
            return Err(UsageError::NoDocument(path).into());
        };
        let found = Self { path: file.path, settings: path };
        Ok((found, Input::of(file.text, None)))
    }

    pub(super) fn row(&self) -> Row {
        let Self { path, settings } = self;
        let text = format!("{}, by {}", path.display(), settings.display());
        ("document", text)
    }
}
