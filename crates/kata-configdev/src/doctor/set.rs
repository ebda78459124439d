//! A wrapper with its settings, and the handlers that start it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use node_installer::kata::standing::Place;
use registry_config::Document;

use super::handlers::Handler;
use crate::node_root::NodeRoot;
use crate::settings::{DEFAULT_PATH, Effective, Settings};

/// What belongs together on a node.
#[derive(Debug)]
pub struct Set<'h> {
    /// The wrapper as Kata's configuration names it, and where; `None` where no handler does.
    pub wrapper: Option<&'h Place>,
    /// The handlers that start it.
    pub handlers: Vec<&'h Handler>,
    /// Its settings file.
    pub settings_file: PathBuf,
    /// What the settings say, once they are read.
    pub effective: Option<Effective>,
    /// The node's document, once it is read.
    pub document: Option<Document>,
    /// The first document, of all that sandboxes may get, which has keys of encrypted images.
    pub keys_in: Option<PathBuf>,
}

impl Set<'_> {
    /// The settings, where they could be read.
    #[must_use]
    pub fn settings(&self) -> Option<&Settings> {
        self.effective.as_ref().map(|effective| &effective.settings)
    }
}

/// The sets of the node: one for each wrapper that `handlers` name, with the settings that it finds
/// by its own place unless `settings` names them. Without a wrapper there is one all the same where
/// the settings are there.
pub fn sets<'h>(node: &NodeRoot, handlers: &'h [Handler], settings: Option<&Path>) -> Vec<Set<'h>> {
    let mut by_wrapper: BTreeMap<&str, Set<'h>> = BTreeMap::new();
    for handler in handlers {
        let Some(wrapper) = &handler.standing.wrapper else {
            continue;
        };
        let set = by_wrapper.entry(&wrapper.value).or_insert_with(|| Set {
            wrapper: Some(wrapper),
            handlers: Vec::new(),
            settings_file: settings_of(node, Path::new(&wrapper.value), settings),
            effective: None,
            document: None,
            keys_in: None,
        });
        set.handlers.push(handler);
    }
    let mut sets: Vec<Set<'h>> = by_wrapper.into_values().collect();
    let alone = settings.unwrap_or(Path::new(DEFAULT_PATH));
    let is_known = sets.iter().any(|set| set.settings_file == alone);
    let is_asked = settings.is_some() || !node.is_missing(alone);
    if is_asked && !is_known {
        sets.push(Set {
            wrapper: None,
            handlers: Vec::new(),
            settings_file: alone.to_owned(),
            effective: None,
            document: None,
            keys_in: None,
        });
    }
    sets
}

/// Where a wrapper finds its settings: Kata resolves links before it starts it.
fn settings_of(node: &NodeRoot, wrapper: &Path, settings: Option<&Path>) -> PathBuf {
    if let Some(settings) = settings {
        return settings.to_owned();
    }
    let real = node.real(wrapper);
    let program = real.as_deref().unwrap_or(wrapper);
    Settings::path_of(Some(program), |directory| node.has_directory(directory))
}
