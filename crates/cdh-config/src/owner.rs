//! What an owner said, each with its place.

use crate::finding::Place;
use crate::registries::Rule;

/// A text and where it stands.
pub(crate) type Placed = (String, Place);

/// Which signatures images need.
#[derive(Debug)]
pub(crate) enum Policy {
    /// The policy.
    Text(Placed),
    /// Where it is.
    Reference(Placed),
}

/// What was said about image pulls.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// Whether there is `[image]`, so that kernel parameters do not count.
    pub(crate) has_image: bool,
    /// Whether there is `[kbc]`.
    pub(crate) has_kbc: bool,
    /// Where the docker configuration is.
    pub(crate) credentials: Option<Placed>,
    /// The image policy.
    pub(crate) policy: Option<Policy>,
    /// PEM certificates beside the web's.
    pub(crate) roots: Vec<Placed>,
    /// The variables of `[extra-env]`; `None` where no proxy was spoken of.
    pub(crate) proxies: Option<Vec<(&'static str, Placed)>>,
    /// What holds for some hosts.
    pub(crate) rules: Vec<Rule>,
}

impl Owner {
    /// Adds a variable of `[extra-env]`.
    pub(crate) fn proxy(&mut self, variable: &'static str, text: &str, place: Place) {
        let text = match variable {
            NO_PROXY => exceptions(text),
            _ => text.to_owned(),
        };
        let proxies = self.proxies.get_or_insert_default();
        proxies.push((variable, (text, place)));
    }
}

/// The variable whose meaning differs between the hub and the document.
pub(crate) const NO_PROXY: &str = "NO_PROXY";

/// The hub excepts a domain and all below it, with a dot before it or not; in the document, the dot
/// means what is below only.
fn exceptions(text: &str) -> String {
    let items = text.split(',').map(str::trim);
    let items: Vec<_> = items.map(|item| item.strip_prefix('.').unwrap_or(item)).collect();
    items.join(",")
}
