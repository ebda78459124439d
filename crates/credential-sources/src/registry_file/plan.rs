//! A registry's hosts in the order in which a file has them asked.

use registry_config::Registry;

use super::endpoint::Endpoint;

/// What a file says about one registry.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its name as the document writes it, not yet checked.
    pub(crate) name: String,
    /// The file.
    pub(crate) source: String,
    /// The key or directory in it, printable.
    pub(crate) key: String,
    /// Who is asked, the first first.
    pub(crate) links: Vec<Link>,
    /// Whether the registry itself is asked where the mirrors of a repository fail, if it is one of
    /// the links.
    pub(crate) falls_back: bool,
    /// The first segments of the names of repositories that nobody is asked for.
    pub(crate) blocked: Vec<String>,
    /// Whether its images may not be pulled at all.
    pub(crate) is_blocked: bool,
}

/// A host that is asked.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Its key in the file, printable.
    pub(crate) key: String,
    /// Where it is.
    pub(crate) target: Target,
    /// How it is reached, without mirrors.
    pub(crate) settings: Registry,
    /// The repositories that it has.
    pub(crate) names: Names,
    /// Whether the registry itself is asked for these, where that is not so for all.
    pub(crate) fallback: Option<bool>,
}

/// Which repositories a host has, and under which names, as a mirror of the document says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The first segments of the names of the repositories that it has; `None` where it may have
    /// them all.
    pub(crate) prefix: Option<String>,
    /// What stands in the place of these, or before all of a name.
    pub(crate) name: Option<String>,
}

impl Link {
    /// The registry itself.
    pub(crate) fn registry(key: String, settings: Registry) -> Self {
        let (target, names) = (Target::Registry, Names::default());
        Self { key, target, settings, names, fallback: None }
    }
}

/// Where a host is.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The registry itself.
    Registry,
    /// At this address, which may turn out to be the registry's own.
    Address(Endpoint),
    /// Where the document cannot say it. The reader has told.
    Inexpressible,
    /// Nowhere, by rules for names that the document cannot say: the engine goes on to the next
    /// host where such a one has nothing. The reader has told.
    PassedOver,
}
