//! For which documents this agent asks the plugins, so that no sandbox waits for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use node_installer::Options;
use registry_config::Document;
use zeroize::Zeroizing;

use super::rotation::{self, Rotation};
use super::sandboxes::{read, run_root, run_roots};
use crate::providers::agent::{self, Asks};
use crate::settings::Settings;

/// The promises that this agent gives, by set.
#[derive(Debug, Default)]
pub(super) struct Promises(BTreeMap<String, Asks>);

impl Promises {
    /// The directories in which wrappers call, made where they are missing. None where this agent
    /// promises nothing.
    pub(super) fn places(options: &Options) -> BTreeSet<PathBuf> {
        let mut places = BTreeSet::new();
        for run_root in run_roots(options).iter().filter(|_| may_promise(options)) {
            if agent::prepare(run_root) {
                places.insert(agent::directory(run_root));
            }
        }
        places
    }

    /// Gives the promises that are still missing, and takes back those for plugins that give no
    /// answer here: that costs a sandbox's start at most the deadline, and what fails or hangs in
    /// this container may answer on the node. So each set's plugins are tried before the first
    /// promise.
    pub(super) fn keep(&mut self, options: &Options, rotation: &mut Rotation) {
        for (name, set) in options.sets.iter().filter(|_| may_promise(options)) {
            let document = Promised::of(options, name);
            if !rotation.works_here(name) {
                document.try_out(options, rotation, name);
            }
            if !rotation.works_here(name) {
                self.0.remove(name);
            } else if !self.0.contains_key(name) {
                let asks = agent::promise(&run_root(options, set), document.path());
                self.0.extend(asks.map(|asks| (name.clone(), asks)));
            }
        }
    }
}

/// What a set's plugins are asked for.
enum Promised {
    /// Its one document.
    Document(PathBuf),
    /// The documents of all namespaces, by the path that the settings have for them.
    Namespaces(PathBuf),
}

impl Promised {
    fn of(options: &Options, set: &str) -> Self {
        let settings = rotation::settings(options, set);
        match settings.filter(Settings::is_by_namespace) {
            Some(Settings { document: Some(pattern), .. }) => Self::Namespaces(pattern),
            _ => Self::Document(options.document(set).as_str().into()),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Document(path) | Self::Namespaces(path) => path,
        }
    }

    /// Asks the plugins of a set that were not asked yet, where its document is there.
    fn try_out(&self, options: &Options, rotation: &mut Rotation, set: &str) {
        if rotation.was_asked(set) {
            return;
        }
        let text = match self {
            Self::Document(path) => read(options, path).ok(),
            // Whose it is does not matter for whether they answer.
            Self::Namespaces(_) => Some(Zeroizing::default()),
        };
        let Some(text) = text else { return };
        let parsed = Document::parse(&text).map(|checked| checked.document);
        if let Some(parsed) = parsed.ok().filter(|parsed| parsed.node_error.is_none()) {
            let _ = rotation.complete(options, set, (&text, &parsed));
        }
    }
}

/// An agent that leaves sandboxes alone cannot bring them an answer.
fn may_promise(options: &Options) -> bool {
    options.sandboxes && options.providers
}
