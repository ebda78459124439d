//! The settings that result from all files, and where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::at_line::AtLine;
use super::files::Files;
use super::text::{Layer, QemuLayer};
use super::{Qemu, Settings, SettingsError};
use crate::namespace_path;

/// The key whose registries need the other keys of its table.
const REGISTRIES: &str = "credential-providers.registries";

/// The settings of a node with the origin of each.
#[derive(Clone, Debug)]
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
        let mut effective = Self::built_in();
        for (path, text) in files {
            let layer = Layer::parse(&text?).map_err(|(line, rule)| SettingsError::Text {
                path: path.clone(),
                line,
                rule,
            })?;
            effective.put(&path, layer);
            effective.files.push(path);
        }
        effective.check_together()?;
        Ok(effective)
    }

    /// What the files say of the off switch and of the way of a refusal, whatever else is wrong with
    /// them: the rest is built in. What the administrator cannot have written alone says nothing.
    #[must_use]
    pub fn salvage(files: &Files) -> Self {
        let mut effective = Self::built_in();
        for (path, text) in files.readable() {
            effective.put(path, Layer::salvage(text));
        }
        effective
    }

    fn built_in() -> Self {
        Self { settings: Settings::default(), files: Vec::new(), origins: Origins::default() }
    }

    /// Lets `layer`, of the file `path`, win in every key that it has.
    fn put(&mut self, path: &Path, layer: Layer) {
        let settings = &mut self.settings;
        let mut values = Values { path: path.into(), origins: &mut self.origins.0 };
        values.put("enabled", layer.enabled, &mut settings.enabled);
        if let Some(qemu) = layer.qemu {
            values.put_qemu(&mut settings.qemu, qemu);
        }
        let document = layer.document.map(AtLine::some);
        values.put("document", document, &mut settings.document);
        let missing = layer.missing_document.map(AtLine::some);
        values.put("missing-document", missing, &mut settings.missing_document);
        let engine = layer.engine.map(AtLine::some);
        values.put("engine", engine, &mut settings.engine);
        let fallback = layer.namespace_fallback;
        values.put("namespace-fallback", fallback, &mut settings.namespace_fallback);
        let allowed = layer.annotation_allow;
        values.put("annotation-allow", allowed, &mut settings.annotation_allow);
        let without_spec = layer.without_spec.map(AtLine::some);
        values.put("without-spec", without_spec, &mut settings.without_spec);
        values.put("transport", layer.transport, &mut settings.transport);
        let capacity = layer.capacity.map(AtLine::some);
        values.put("capacity", capacity, &mut settings.capacity);
        values.put("run-root", layer.run_root, &mut settings.run_root);
        values.put("refuse", layer.refuse, &mut settings.refuse);
        values.put("guest-pull", layer.guest_pull, &mut settings.guest_pull);
        let (found, providers) = (layer.credential_providers, &mut settings.credential_providers);
        let config = found.config.map(AtLine::some);
        values.put("credential-providers.config", config, &mut providers.config);
        let bin_dir = found.bin_dir.map(AtLine::some);
        values.put("credential-providers.bin-dir", bin_dir, &mut providers.bin_dir);
        let registries = found.registries;
        values.put(REGISTRIES, registries, &mut providers.registries);
        let deadline = found.deadline;
        values.put("credential-providers.deadline-secs", deadline, &mut providers.deadline);
        values.put(
            "credential-providers.leave-to-agent",
            found.leave_to_agent,
            &mut providers.leave_to_agent,
        );
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

/// The values of one file on their way into the settings.
struct Values<'a> {
    path: Rc<Path>,
    origins: &'a mut BTreeMap<String, Origin>,
}

impl Values<'_> {
    fn put<T>(&mut self, key: &str, found: Option<AtLine<T>>, value: &mut T) {
        if let Some(found) = found {
            *value = found.value;
            let path = Rc::clone(&self.path);
            let line = found.line;
            self.origins.insert(key.into(), Origin::File { path, line });
        }
    }

    /// A path replaces what earlier files said about every machine type; a table only the types
    /// that it has.
    fn put_qemu(&mut self, qemu: &mut Qemu, layer: QemuLayer) {
        let entries = match layer {
            QemuLayer::All(found) => {
                qemu.by_machine.clear();
                self.origins.retain(|key, _| !key.starts_with("qemu."));
                [("default".to_owned(), found)].into()
            }
            QemuLayer::ByMachine(entries) => entries,
        };
        for (machine, found) in entries {
            let key = format!("qemu.{machine}");
            if machine == "default" {
                self.put(&key, Some(found), &mut qemu.default);
            } else {
                self.put(&key, Some(found), qemu.by_machine.entry(machine).or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests;
