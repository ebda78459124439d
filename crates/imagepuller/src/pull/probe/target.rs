//! What is probed.

use std::collections::BTreeSet;
use std::fmt;

use oci_image::named::NamedReference;
use pull_route::{EntryName, Settings};
use registry_config::{Origin, RegistryName};

/// How many targets are probed at once at most: more than a node's document has, and each of them
/// is a request to somebody else's server.
pub const MAX_TARGETS: usize = 64;

/// One thing to try.
#[derive(Clone, Debug)]
pub enum Target {
    /// An image, up to the answer with its manifest.
    Image(NamedReference),
    /// An entry of a document without an image, as far as its host allows.
    Entry(Entry),
}

/// An entry, and the repositories that it is tried for.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name in the document.
    pub name: RegistryName,
    /// Whose document it is.
    pub origin: Origin,
    /// The first segments of the repositories' names; empty for those that no entry and no mirror
    /// is for in particular.
    pub repository: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(image) => image.fmt(f),
            Self::Entry(entry) => {
                let name = EntryName::Entry(entry.name.clone(), entry.origin);
                name.fmt(f)?;
                let own = entry.name.repositories().unwrap_or_default();
                match entry.repository == own {
                    true => Ok(()),
                    false => write!(f, " for {}", entry.repository),
                }
            }
        }
    }
}

/// The entries, each once for those of its mirrors that are for some repositories only.
pub fn entries(settings: &Settings) -> (Vec<Target>, usize) {
    let mut seen = BTreeSet::new();
    let mut targets = Vec::new();
    let mut left_out = 0;
    for (origin, name, registry) in settings.entries() {
        let own = name.repositories().unwrap_or_default();
        let prefixes = registry.mirrors.iter().filter_map(|mirror| mirror.prefix());
        for repository in std::iter::once(own).chain(prefixes) {
            // Where both documents have it, the owner's is in charge.
            if !seen.insert((name.of_host().to_string(), repository.to_owned())) {
                continue;
            }
            if targets.len() == MAX_TARGETS {
                left_out += 1;
                continue;
            }
            targets.push(Target::Entry(Entry {
                name: name.clone(),
                origin,
                repository: repository.to_owned(),
            }));
        }
    }
    (targets, left_out)
}
