//! What one document is made of: the secrets of the container that are put together to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use credential_sources::secretgen::is_namespace;
use serde::Deserialize;

use crate::limits::{MAX_DECRYPTION_SECRETS, MAX_DOCKER_CONFIGS};

/// The longest name of a set and of a secret's key: Kubernetes' own limit for keys.
const MAX_NAME_BYTES: usize = 253;

/// The longest name of a document for the annotation; a file system takes 255 bytes for one that
/// is not finished.
const MAX_DOCUMENT_NAME_BYTES: usize = 200;

/// The secrets of a document besides the set's own: that of a namespace, or one that the
/// annotation of a pod can name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[non_exhaustive]
pub struct Source {
    /// The directory of the container that a secret with the document is mounted at. It need not
    /// be there. `None`: the document is made of the other secrets alone.
    pub secret: Option<PathBuf>,
    /// The key of the secret that holds the document.
    pub key: Option<String>,
    /// As [`Set::docker_configs`](crate::Set::docker_configs).
    pub docker_configs: Vec<PathBuf>,
    /// As [`Set::allow_widening`](crate::Set::allow_widening).
    pub allow_widening: bool,
    /// As [`Set::decryption_keys`](crate::Set::decryption_keys).
    pub decryption_keys: Vec<PathBuf>,
    /// Whether pods are told that a secret has not come, instead of pulling without it; also
    /// whether the node is not ready until then.
    pub required: bool,
    /// What messages call the secrets; the set says it.
    #[serde(skip)]
    pub(crate) names: BTreeMap<PathBuf, String>,
}

impl Source {
    /// The key of the document in its secret.
    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().unwrap_or("imagepuller.toml")
    }

    /// All secrets, in their order.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &PathBuf> {
        let more = self.docker_configs.iter().chain(&self.decryption_keys);
        self.secret.iter().chain(more)
    }

    /// Whether there is anything that a document can be made of.
    pub(crate) fn has_secrets(&self) -> bool {
        self.secrets().next().is_some()
    }

    /// The secrets that a required document waits for: all that are listed for it, and its own
    /// where nothing else can make it.
    pub(crate) fn needed(&self) -> impl Iterator<Item = &PathBuf> {
        let others = self.docker_configs.iter().chain(&self.decryption_keys);
        self.secret.iter().filter(|path| !self.may_be_absent(path)).chain(others)
    }

    /// Whether nobody misses this secret: a set always names its own, also one that others make.
    pub(crate) fn may_be_absent(&self, path: &Path) -> bool {
        let has_others = !self.docker_configs.is_empty() || !self.decryption_keys.is_empty();
        has_others && self.secret.as_deref() == Some(path)
    }

    /// How messages call the secret that is mounted at `path`.
    pub(crate) fn name_of(&self, path: &Path) -> String {
        let name = self.names.get(path).cloned();
        name.unwrap_or_else(|| path.display().to_string())
    }

    /// How messages call the file at `path`: with its secret, where that has a name.
    pub(crate) fn place_of(&self, path: &Path) -> String {
        let place = path.display();
        match path.ancestors().find_map(|above| self.names.get(above)) {
            Some(name) => format!("{place} (the secret {name})"),
            None => place.to_string(),
        }
    }

    /// Refuses what can never work, with the key.
    pub(crate) fn require_consistent(&self) -> Result<(), String> {
        if !is_name(self.key()) {
            return Err("key: not the key of a secret".into());
        }
        if self.secret.iter().any(|path| !path.is_absolute()) {
            return Err("secret: not an absolute path".into());
        }
        for (key, paths, most) in [
            ("docker-configs", &self.docker_configs, MAX_DOCKER_CONFIGS),
            ("decryption-keys", &self.decryption_keys, MAX_DECRYPTION_SECRETS),
        ] {
            if paths.len() > most {
                return Err(format!("{key}: more than {most}"));
            }
            if !paths.iter().all(|path| path.is_absolute()) {
                return Err(format!("{key}: not an absolute path"));
            }
        }
        Ok(())
    }
}

/// Whether `text` is a single component of a path, of the characters that Kubernetes allows in a
/// secret's key.
pub(crate) fn is_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && !text.starts_with('.')
        && text.bytes().all(known)
}

/// Whether `text` is a namespace and a name, of the characters that Kubernetes allows in them.
pub(crate) fn is_secret_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        (1..=MAX_NAME_BYTES).contains(&part.len()) && part.bytes().all(known)
    };
    text.split_once('/').is_some_and(|(namespace, name)| is_part(namespace) && is_part(name))
}

/// Whether a document for the annotation can have this name: labels with dots between, as names of
/// namespaces have one.
pub(crate) fn is_document_name(text: &str) -> bool {
    text.len() <= MAX_DOCUMENT_NAME_BYTES && text.split('.').all(is_namespace)
}
