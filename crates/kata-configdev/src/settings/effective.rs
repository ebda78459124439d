//! The settings that result from all files, and where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::files::Files;
use super::salvage::salvage;
use super::text::{self, Layer};
use super::{Settings, SettingsError};
use crate::namespace_path;

/// The key whose registries need the other keys of its table.
const REGISTRIES: &str = "credential-providers.registries";

/// The settings of a node with the origin of each.
#[derive(Clone, Debug, Default)]
pub struct Effective {
    /// What holds.
    pub settings: Settings,
    /// The files that were read, in the order in which later ones win.
    pub files: Vec<PathBuf>,
    /// Where each value came from.
    pub origins: Origins,
}

/// Where each value of [`Settings`] came from, by its key: `document`, `qemu.q35`,
/// `credential-providers.config`. Keys that no file has are not in it.
#[derive(Clone, Debug, Default)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Where the value of `key` came from.
    #[must_use]
    pub fn of(&self, key: &str) -> &Origin {
        self.0.get(key).unwrap_or(&Origin::BuiltIn)
    }
}

/// Where one value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// No file has the key.
    #[default]
    BuiltIn,
    /// This line of this file.
    File {
        /// The file.
        path: Rc<Path>,
        /// The line, from 1.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}

impl Effective {
    /// Reads the settings file `path` and its drop-ins; see [`Settings::load`].
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        Self::of(Files::read(path))
    }

    /// What the files say together; one that cannot be read or understood is never skipped.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn of(files: Files) -> Result<Self, SettingsError> {
        let (mut values, mut read) = (Values::default(), Vec::new());
        for (path, text) in files {
            let layer = text::parse(&text?).map_err(|(line, rule)| SettingsError::Text {
                path: path.clone(),
                line,
                rule,
            })?;
            values.put(&path, layer);
            read.push(path);
        }
        let effective = Self { files: read, ..values.effective()? };
        effective.check_together()?;
        Ok(effective)
    }

    /// What the files say of the off switch and of the way of a refusal, whatever else is wrong
    /// with them: the rest is built in. What the administrator cannot have written alone says
    /// nothing.
    #[must_use]
    pub fn salvage(files: &Files) -> Self {
        let mut values = Values::default();
        for (path, text) in files.readable() {
            values.put(path, salvage(text));
        }
        values.effective().unwrap_or_default()
    }

    /// Requires what the files have to say together: the credential providers to ask where they
    /// name registries, and the engine where they have something by namespace, apart from the rest.
    fn check_together(&self) -> Result<(), SettingsError> {
        let missing = self.settings.credential_providers.missing();
        if let Some(missing) = missing {
            return Err(self.broken(REGISTRIES, format!("{REGISTRIES}: {missing} is missing")));
        }
        if let Some((key, rule)) = namespace_path::contradiction(&self.settings) {
            return Err(self.broken(key, rule));
        }
        Ok(())
    }

    /// The error about a key that some file has.
    fn broken(&self, key: &str, rule: String) -> SettingsError {
        let (path, line) = match self.origins.of(key) {
            Origin::File { path, line } => (path.to_path_buf(), *line),
            Origin::BuiltIn => (self.files.first().cloned().unwrap_or_default(), 0),
        };
        SettingsError::Text { path, line, rule }
    }
}

/// The values of all files by their keys, each with its place.
#[derive(Default)]
pub(super) struct Values(pub(super) BTreeMap<String, (toml::Value, Origin)>);

impl Values {
    /// Lets `layer`, of the file `path`, win in every key that it has. A path of QEMU is for every
    /// machine type, whatever was said about single ones.
    pub(super) fn put(&mut self, path: &Path, mut layer: Layer) {
        if let Some(all) = layer.remove("qemu") {
            layer.retain(|key, _| !key.starts_with("qemu."));
            self.0.retain(|key, _| !key.starts_with("qemu."));
            layer.insert("qemu.default".into(), all);
        }
        let path: Rc<Path> = path.into();
        self.0.extend(layer.into_iter().map(|(key, (line, value))| {
            let path = Rc::clone(&path);
            (key, (value, Origin::File { path, line }))
        }));
    }

    /// The settings that they are. Each value is known to be one.
    fn effective(self) -> Result<Effective, SettingsError> {
        let values = self.0.iter().map(|(key, (value, _))| (key, value));
        let settings = text::settings(values).map_err(|error| SettingsError::Text {
            path: PathBuf::new(),
            line: 0,
            rule: error.message().into(),
        })?;
        let origins = self.0.into_iter().map(|(key, (_, origin))| (key, origin));
        Ok(Effective { settings, files: Vec::new(), origins: Origins(origins.collect()) })
    }
}

#[cfg(test)]
mod tests;
