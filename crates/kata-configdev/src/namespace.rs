//! The namespace of a pod, as the container engine wrote it into the spec of the sandbox.
//!
//! A pod's author must not be able to choose it, and the engines differ in which key that is true
//! of. No key tells the engines apart that an author could not write, too. So the settings name the
//! engine.

use std::fmt;

use credential_sources::secretgen::{MAX_NAMESPACE_BYTES, is_namespace};
pub use node_installer::engine::Engine;
use serde::{Deserialize, Serialize};

/// The key of the namespace that nobody but `engine`, or the kubelet, can have written.
///
/// containerd writes its own keys over whatever the pod has. CRI-O copies the pod's annotations and
/// then its labels over its own keys; the kubelet writes its labels over those of the pod.
#[must_use]
pub const fn namespace_key(engine: Engine) -> &'static str {
    match engine {
        Engine::Containerd => "io.kubernetes.cri.sandbox-namespace",
        Engine::CriO => "io.kubernetes.pod.namespace",
    }
}

/// A key and its value that `engine` writes into specs of sandboxes and of nothing else.
#[must_use]
pub const fn sandbox_mark(engine: Engine) -> (&'static str, &'static str) {
    match engine {
        Engine::Containerd => ("io.kubernetes.cri.container-type", "sandbox"),
        // No container of a pod can have this name: it has capitals.
        Engine::CriO => ("io.kubernetes.container.name", "POD"),
    }
}

/// The name of a namespace, as Kubernetes checks it: 1 to 63 lower-case ASCII letters, digits and
/// `-`, a letter or digit first and last.
///
/// So it is always one plain name in a path, and never hidden.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Namespace(String);

/// The text is no [`Namespace`]. Does not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no name that a namespace can have")]
pub struct InvalidNamespace;

impl Namespace {
    /// The longest name.
    pub const MAX_BYTES: usize = MAX_NAMESPACE_BYTES;

    /// Reads a name.
    ///
    /// # Errors
    ///
    /// [`InvalidNamespace`].
    pub fn parse(text: &str) -> Result<Self, InvalidNamespace> {
        is_namespace(text).then(|| Self(text.into())).ok_or(InvalidNamespace)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Namespace {
    type Error = InvalidNamespace;

    fn try_from(text: String) -> Result<Self, InvalidNamespace> {
        Self::parse(&text)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why the namespace of a pod is not known, as a fragment that fits after "failed to".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceFault {
    /// The spec has no such key.
    #[error("find the pod's namespace: the sandbox's config.json has no {0}")]
    Missing(&'static str),
    /// The spec is not that of a sandbox, by this key and its value.
    #[error(
        "find the pod's namespace: config.json is not the spec of a sandbox: {key} is not {value:?}"
    )]
    NotSandbox {
        /// The key.
        key: &'static str,
        /// The value that it has for a sandbox.
        value: &'static str,
    },
    /// The value of this key is no name.
    #[error("find the pod's namespace: the value of {0} is no name that a namespace can have")]
    Invalid(&'static str),
    /// The key of the engine in the settings, and that of the other engine, which names another.
    #[error("find the pod's namespace: {0} and {1} name different ones")]
    Contradiction(&'static str, &'static str),
}

impl NamespaceFault {
    /// What the reader can do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Missing(_) | Self::NotSandbox { .. } => {
                "set engine in the wrapper's settings to what starts the node's containers, \
                \"containerd\" or \"cri-o\", and name the bundle of the sandbox"
            }
            Self::Invalid(_) => {
                "the container engine writes this key, with the name that Kubernetes accepted; \
                look at what started the sandbox"
            }
            Self::Contradiction(..) => {
                "take the key of the other container engine off the pod's annotations and labels; \
                if the pod has none, correct engine in the wrapper's settings"
            }
        }
    }
}

/// What a spec has in the keys of the engines, believed by nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// By [`namespace_key`]: of containerd, of CRI-O.
    pub(crate) namespaces: [Option<String>; 2],
    /// By [`sandbox_mark`]: of containerd, of CRI-O.
    pub(crate) marks: [Option<String>; 2],
}

impl Claims {
    /// The namespace that `engine` wrote.
    ///
    /// The true key of either engine is in every spec that it writes, and an author cannot take it
    /// away. So a spec whose two keys differ comes from an author who forges one, or from another
    /// engine than the settings name; it is refused, and a wrong name in the settings gives nobody
    /// another namespace.
    pub(crate) fn namespace(&self, engine: Engine) -> Result<Namespace, NamespaceFault> {
        let (own, other) = match engine {
            Engine::Containerd => (0, Engine::CriO),
            Engine::CriO => (1, Engine::Containerd),
        };
        let (key, other_key) = (namespace_key(engine), namespace_key(other));
        let said = self.namespaces[own].as_deref().ok_or(NamespaceFault::Missing(key))?;
        let (mark, value) = sandbox_mark(engine);
        if self.marks[own].as_deref() != Some(value) {
            return Err(NamespaceFault::NotSandbox { key: mark, value });
        }
        let namespace = Namespace::parse(said).map_err(|_| NamespaceFault::Invalid(key))?;
        let also = self.namespaces[1 - own].as_deref();
        if also.is_some_and(|also| also != said) {
            return Err(NamespaceFault::Contradiction(key, other_key));
        }
        Ok(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_one_plain_name() {
        let long = "a".repeat(Namespace::MAX_BYTES);
        for name in ["a", "0", "team-a", "a--b", &long] {
            assert_eq!(Namespace::parse(name).unwrap().as_str(), name);
        }
        let longer = format!("{long}a");
        for text in [
            "",
            ".",
            "..",
            "-a",
            "a-",
            "A",
            "a.b",
            "a/b",
            "../a",
            "a b",
            "a\n",
            "a\0",
            "a_b",
            "{namespace}",
            "\u{e9}",
            &longer,
        ] {
            assert_eq!(Namespace::parse(text), Err(InvalidNamespace), "{text:?}");
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<Namespace>(&json).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_engine_believes_its_own_key() {
        let claims = |namespaces: [&str; 2], marks: [&str; 2]| {
            let said = |text: &str| Some(text.to_owned()).filter(|text| text != "none");
            Claims { namespaces: namespaces.map(said), marks: marks.map(said) }
        };
        let [containerd, crio] =
            ["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"];
        let (real, both) = (["sandbox", "none"], ["sandbox", "POD"]);
        for (namespaces, marks, expected) in [
            (["a", "none"], real, [Ok("a"), Err(NamespaceFault::Missing(crio))]),
            (["a", "a"], both, [Ok("a"), Ok("a")]),
            (
                ["a", "b"],
                both,
                [
                    Err(NamespaceFault::Contradiction(containerd, crio)),
                    Err(NamespaceFault::Contradiction(crio, containerd)),
                ],
            ),
            (
                ["a/../b", "none"],
                real,
                [Err(NamespaceFault::Invalid(containerd)), Err(NamespaceFault::Missing(crio))],
            ),
            (
                ["a", "a"],
                ["container", "app"],
                [Engine::Containerd, Engine::CriO].map(|engine| {
                    let (key, value) = sandbox_mark(engine);
                    Err(NamespaceFault::NotSandbox { key, value })
                }),
            ),
        ] {
            let claims = claims(namespaces, marks);
            let found = [Engine::Containerd, Engine::CriO].map(|engine| claims.namespace(engine));
            let expected = expected.map(|name| name.map(|name| Namespace::parse(name).unwrap()));
            assert_eq!(found, expected, "{namespaces:?} {marks:?}");
        }
    }
}
