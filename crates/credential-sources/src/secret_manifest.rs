//! Kubernetes manifests that carry docker configurations: secrets, and what secretgen-controller
//! says about them.
//!
//! YAML with any number of documents, or JSON; single objects and lists. Of a secret, its type and
//! its key count together, as for kubelet: the right key under another type is nothing.
//! `stringData` wins over `data`, as in the API server.

mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::docker_config::{ConfigError, DockerConfig};
use crate::{Loss, or_default};

pub use read::parse;

/// The longest text. Free to change; a list of a few secrets of the greatest size fits.
pub const MAX_MANIFEST_BYTES: usize = 8 << 20;

/// The most objects of a text, those in lists included. Free to change.
pub const MAX_OBJECTS: usize = 1024;

/// The annotation of a secret that secretgen-controller fills.
pub const PLACEHOLDER: &str = "secretgen.carvel.dev/image-pull-secret";

/// The type of secret that takes part in secretgen's combination.
pub const DOCKER_CONFIG_JSON: &str = "kubernetes.io/dockerconfigjson";

const DOCKER_CFG: &str = "kubernetes.io/dockercfg";

/// An object of interest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Object {
    /// A secret.
    Secret(SecretManifest),
    /// Which namespaces a secret is for.
    Export(ExportManifest),
    /// A namespace.
    Namespace(Metadata),
    /// Anything else; its kind.
    Other(String),
}

/// Names and annotations. `Debug` shows the names.
#[derive(Clone, Default)]
pub struct Metadata {
    /// The namespace; `default` where none is written.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The annotations, without the one in which `kubectl apply` keeps the whole object.
    pub annotations: BTreeMap<String, String>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

/// A secret. `Debug` shows no data.
#[derive(Clone)]
pub struct SecretManifest {
    /// Its names.
    pub metadata: Metadata,
    /// Its type; `Opaque` where none is written.
    pub kind: String,
    data: BTreeMap<String, Zeroizing<String>>,
    string_data: BTreeMap<String, Zeroizing<String>>,
}

/// `SecretExport` of `secretgen.carvel.dev`: the secret of the same names is for others.
#[derive(Clone, Debug)]
pub struct ExportManifest {
    /// Its names.
    pub metadata: Metadata,
    /// The namespaces it is for; `*` is all.
    pub to_namespaces: Vec<String>,
    /// `dangerousToNamespacesSelector`: conditions that a namespace must meet together.
    pub selectors: Vec<Selector>,
}

/// A condition on a namespace.
#[derive(Clone, Debug, Deserialize)]
pub struct Selector {
    /// A path in the namespace object.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// What to compare with.
    #[serde(default, deserialize_with = "or_default")]
    pub values: Vec<String>,
}

/// Why a text is refused. Never quotes it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Longer than [`MAX_MANIFEST_BYTES`].
    #[error("a file of manifests has at most {MAX_MANIFEST_BYTES} bytes")]
    TooLong,
    /// Not UTF-8.
    #[error("it is not UTF-8 text")]
    NotUtf8,
    /// Neither YAML nor JSON, or with a value of another type than manifests have.
    #[error(
        "it is not a manifest: line {line}, column {column} is no YAML or JSON, or has a value of \
        another type"
    )]
    Form {
        /// The line, from 1; 0 where none is known.
        line: u64,
        /// The column, from 1.
        column: u64,
    },
    /// Too many values in all.
    #[error("a file of manifests has at most {limit} values and keys")]
    TooManyNodes {
        /// The limit.
        limit: usize,
    },
    /// More than [`MAX_OBJECTS`].
    #[error("a file of manifests has at most {MAX_OBJECTS} objects")]
    TooManyObjects,
}

/// What a secret holds for image pulls.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Payload {
    /// Credentials, perhaps none.
    Config(DockerConfig),
    /// Nothing, since kubelet looks at nothing here; why.
    Ignored {
        /// As a fragment.
        why: String,
        /// Something is lost where its author may have meant something.
        loss: Loss,
    },
}

/// Why a secret for image pulls cannot be read. Never quotes it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Its data is not base64.
    #[error("its data is not base64")]
    NotBase64,
    /// Its data is no docker configuration.
    #[error(transparent)]
    Config(ConfigError),
}

impl Metadata {
    /// `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl SecretManifest {
    /// Reads what the secret holds for image pulls.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if its type promises a docker configuration that is not there.
    pub fn payload(&self) -> Result<Payload, SecretError> {
        const KEYS: [(&str, &str); 2] =
            [(DOCKER_CONFIG_JSON, ".dockerconfigjson"), (DOCKER_CFG, ".dockercfg")];
        let ignored = |why: String, loss| Payload::Ignored { why, loss };
        let Some((_, key)) = KEYS.iter().find(|(kind, _)| *kind == self.kind) else {
            let data =
                |key: &str| self.data.contains_key(key) || self.string_data.contains_key(key);
            let stray = KEYS.iter().find(|(_, key)| data(key));
            return Ok(match stray {
                Some((kind, key)) => ignored(
                    format!("its key {key} counts in a secret of the type {kind} only"),
                    Loss::Lost,
                ),
                None => ignored("it is no secret for image pulls".to_owned(), Loss::Note),
            });
        };
        let text = self.value(key)?.unwrap_or_default();
        if text.is_empty() {
            return Ok(ignored(format!("its key {key} is empty or missing"), Loss::Lost));
        }
        let parse = match self.kind.as_str() {
            DOCKER_CFG => DockerConfig::parse_legacy,
            _ => DockerConfig::parse,
        };
        parse(&text).map(Payload::Config).map_err(SecretError::Config)
    }

    /// Everything that the secret holds, by key; `None` where a value is not base64.
    #[must_use]
    pub fn values(&self) -> BTreeMap<&str, Option<Zeroizing<Vec<u8>>>> {
        let keys = self.data.keys().chain(self.string_data.keys());
        keys.map(|key| (key.as_str(), self.value(key).ok().flatten())).collect()
    }

    /// The bytes of a key; the API server's base64 has padding and may have line ends.
    fn value(&self, key: &str) -> Result<Option<Zeroizing<Vec<u8>>>, SecretError> {
        if let Some(text) = self.string_data.get(key) {
            return Ok(Some(Zeroizing::new(text.as_bytes().to_vec())));
        }
        let Some(encoded) = self.data.get(key) else {
            return Ok(None);
        };
        let mut compact = Zeroizing::new(Vec::with_capacity(encoded.len()));
        compact.extend(encoded.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')));
        let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(compact.len())]);
        let length =
            STANDARD.decode_slice(&*compact, &mut bytes).map_err(|_| SecretError::NotBase64)?;
        bytes.truncate(length);
        Ok(Some(bytes))
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metadata").field(&self.full_name()).finish()
    }
}

impl fmt::Debug for SecretManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretManifest")
            .field("name", &self.metadata.full_name())
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
