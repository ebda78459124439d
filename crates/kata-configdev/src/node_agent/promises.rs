//! For which documents this agent asks the plugins, so that no sandbox waits for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

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
            let settings = rotation::settings(options, name);
            let by_namespace = settings.filter(Settings::is_by_namespace);
            let pattern = by_namespace.and_then(|settings| settings.document);
            let own = || options.document(name).as_str().into();
            let document: PathBuf = pattern.clone().unwrap_or_else(own);
            if !rotation.was_asked(name) {
                let text = match pattern {
                    // Whose it is does not matter for whether they answer.
                    Some(_) => Some(Zeroizing::default()),
                    None => read(options, &document).ok(),
                };
                try_out(options, rotation, name, text);
            }
            if !rotation.works_here(name) {
                self.0.remove(name);
            } else if !self.0.contains_key(name) {
                let asks = agent::promise(&run_root(options, set), &document);
                self.0.extend(asks.map(|asks| (name.clone(), asks)));
            }
        }
    }
}

/// Asks the plugins of a set what they add to `text`, where it is a document.
fn try_out(
    options: &Options,
    rotation: &mut Rotation,
    set: &str,
    text: Option<Zeroizing<Vec<u8>>>,
) {
    let Some(text) = text else { return };
    let parsed = Document::parse(&text).map(|checked| checked.document);
    if let Some(parsed) = parsed.ok().filter(|parsed| parsed.node_error.is_none()) {
        let _ = rotation.complete(options, set, (&text, &parsed));
    }
}

/// An agent that leaves sandboxes alone cannot bring them an answer.
fn may_promise(options: &Options) -> bool {
    options.sandboxes && options.providers
}
