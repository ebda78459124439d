//! What a placeholder secret is filled with.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use zeroize::Zeroizing;

use super::{Rank, export_of, go_json, names, selector};
use crate::docker_config::Entry;
use crate::secret_manifest::{
    DOCKER_CONFIG_JSON, ExportManifest, Metadata, Object, PLACEHOLDER, Payload, SecretError,
    SecretManifest,
};

/// The annotation that takes a namespace out of `*`.
const EXCLUDED: &str = "secretgen.carvel.dev/excluded-from-wildcard-matching";

/// The content of a placeholder.
#[derive(Clone)]
#[non_exhaustive]
pub struct Combined {
    /// The value of `.dockerconfigjson`.
    pub json: Zeroizing<Vec<u8>>,
    /// `namespace/name` of the secrets in it, in the order of their names.
    pub secret_names: BTreeSet<String>,
}

impl std::fmt::Debug for Combined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Combined").field("secret_names", &self.secret_names).finish_non_exhaustive()
    }
}

/// Why nothing is combined. Never quotes a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CombineError {
    /// An exported secret cannot be read; the controller then leaves the placeholder as it is.
    #[error("the exported secret {name} cannot be read: {source}")]
    Secret {
        /// `namespace/name`.
        name: String,
        /// Why.
        source: SecretError,
    },
    /// An exported secret has no data.
    #[error("the exported secret {name} has no .dockerconfigjson")]
    Empty {
        /// `namespace/name`.
        name: String,
    },
    /// A condition is beyond this program.
    #[error("whether the export {name} reaches the namespace cannot be said: {rule}")]
    Selector {
        /// `namespace/name`.
        name: String,
        /// Why.
        rule: &'static str,
    },
}

/// The namespaces that have a placeholder secret of the right type.
#[must_use]
pub fn placeholder_namespaces(objects: &[Object]) -> BTreeSet<&str> {
    let mut namespaces = BTreeSet::new();
    for object in objects {
        if let Object::Secret(secret) = object
            && secret.kind == DOCKER_CONFIG_JSON
            && secret.metadata.annotations.contains_key(PLACEHOLDER)
        {
            namespaces.insert(secret.metadata.namespace.as_str());
        }
    }
    namespaces
}

/// Combines the secrets that are exported to `namespace`, as the controller does it.
///
/// Of the entries only `username`, `password` and `auth` are kept, each present even if it is
/// empty; of two with the same key as it is written, the one of the secret with the greater
/// [`Rank`] is. The bytes are those that Go's encoder makes; what is refused here and not there is
/// in the [module's](super) description.
///
/// # Errors
///
/// [`CombineError`]. One secret that cannot be read spoils all, as in the controller.
pub fn combine(objects: &[Object], namespace: &str) -> Result<Combined, CombineError> {
    let destination = destination(objects, namespace);
    // As in a cluster, the last of two objects with one name is the object.
    let mut secrets: BTreeMap<String, &SecretManifest> = BTreeMap::new();
    for object in objects {
        if let Object::Secret(secret) = object {
            secrets.insert(secret.metadata.full_name(), secret);
        }
    }
    let mut ranked = Vec::new();
    for (name, secret) in secrets {
        let Some(export) = export_of(&secret.metadata, objects) else {
            continue;
        };
        let reaches = secret.kind == DOCKER_CONFIG_JSON
            && reaches(export, namespace, destination)
                .map_err(|rule| CombineError::Selector { name: name.clone(), rule })?;
        if reaches {
            ranked.push((Rank::of(secret, objects, Some(namespace)), name, secret));
        }
    }
    ranked.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    let mut secret_names = BTreeSet::new();
    for (_, name, secret) in ranked {
        entries.extend(config(secret, &name)?);
        secret_names.insert(name);
    }
    Ok(Combined { json: go_json::auths(&entries), secret_names })
}

fn config(secret: &SecretManifest, name: &str) -> Result<BTreeMap<String, Entry>, CombineError> {
    match secret.payload() {
        Ok(Payload::Config(config)) => Ok(config.entries),
        Ok(Payload::Ignored { .. }) => Err(CombineError::Empty { name: name.to_owned() }),
        Err(source) => Err(CombineError::Secret { name: name.to_owned(), source }),
    }
}

/// The object of a namespace, if it is among the others.
pub(super) fn destination<'o>(objects: &'o [Object], namespace: &str) -> Option<&'o Metadata> {
    objects.iter().rev().find_map(|object| match object {
        Object::Namespace(metadata) if metadata.name == namespace => Some(metadata),
        _ => None,
    })
}

/// Whether an export is for a namespace.
pub(super) fn reaches(
    export: &ExportManifest,
    namespace: &str,
    destination: Option<&Metadata>,
) -> Result<bool, &'static str> {
    let is_excluded =
        destination.is_some_and(|metadata| metadata.annotations.contains_key(EXCLUDED));
    if names(export, namespace) || (names(export, "*") && !is_excluded) {
        return Ok(true);
    }
    if export.selectors.is_empty() {
        return Ok(false);
    }
    let metadata =
        destination.ok_or("its selector needs the Namespace object, which is missing")?;
    selector::all_hold(&export.selectors, metadata)
}
