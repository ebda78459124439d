//! Manifests as text.

use std::collections::BTreeMap;

use foreign_text::json::{self, Duplicates, JsonRule, Limits};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_saphyr::DuplicateKeyPolicy;
use zeroize::Zeroizing;

use super::{
    ExportManifest, MAX_MANIFEST_BYTES, MAX_OBJECTS, ManifestError, Metadata, Object,
    SecretManifest, Selector,
};
use crate::place;

/// The most nodes of a text: what [`MAX_OBJECTS`] secrets with many annotations have. Free to
/// change.
const MAX_NODES: usize = 100_000;

const JSON_LIMITS: Limits =
    Limits { bytes: MAX_MANIFEST_BYTES, values: MAX_NODES, depth: MAX_DEPTH };

/// How deep a text may be. Manifests of pods have about fifteen levels.
const MAX_DEPTH: usize = 48;

/// Where `kubectl apply` keeps the object, data of secrets included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const EXPORT_GROUP: &str = "secretgen.carvel.dev/";

/// An object of any kind, as far as it is of interest. What no kind of interest has is skipped.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Raw {
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<RawMetadata>,
    #[serde(rename = "type")]
    secret_type: Option<String>,
    data: Option<BTreeMap<String, Option<Zeroizing<String>>>>,
    #[serde(rename = "stringData")]
    string_data: Option<BTreeMap<String, Option<Zeroizing<String>>>>,
    items: Option<Vec<Raw>>,
    spec: Option<RawSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawMetadata {
    name: Option<String>,
    namespace: Option<String>,
    annotations: Option<BTreeMap<String, Option<Zeroizing<String>>>>,
    labels: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    #[serde(rename = "toNamespace")]
    to_namespace: Option<String>,
    #[serde(rename = "toNamespaces")]
    to_namespaces: Option<Vec<String>>,
    #[serde(rename = "dangerousToNamespacesSelector")]
    selectors: Option<Vec<Selector>>,
}

/// Reads the objects of a text, those in lists included, in their order.
///
/// The text may come from an attacker: its length, nodes and nesting are bounded, aliases are
/// refused, and no value of it appears in an error. Secrets are copied into memory that is zeroed;
/// the parsers' own buffers are not, where a value is written with escape sequences or over several
/// lines.
///
/// # Errors
///
/// [`ManifestError`].
pub fn parse(text: &[u8]) -> Result<Vec<Object>, ManifestError> {
    if text.len() > MAX_MANIFEST_BYTES {
        return Err(ManifestError::TooLong);
    }
    let text = std::str::from_utf8(text).map_err(|_| ManifestError::NotUtf8)?;
    let mut objects = Vec::new();
    for raw in read(text)?.into_iter().flatten() {
        collect(raw, &mut objects)?;
    }
    Ok(objects)
}

fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<Option<T>>, ManifestError> {
    if !text.trim_start().starts_with('{') {
        return read_yaml(text);
    }
    // Counted before serde makes something of it. YAML has its own count.
    let form = |line: usize, column: usize| ManifestError::Form {
        line: line as u64,
        column: column as u64,
    };
    match json::read(text.as_bytes(), JSON_LIMITS, Duplicates::Kept) {
        Ok(_) => serde_json::from_str(text)
            .map(|raw| vec![Some(raw)])
            .map_err(|error| form(error.line(), error.column())),
        Err(error) if matches!(error.rule, JsonRule::TooManyValues(_)) => {
            Err(ManifestError::TooManyNodes { limit: MAX_NODES })
        }
        // What is no JSON may still be YAML's way of writing an object.
        Err(error) => read_yaml(text).map_err(|_| form(error.line, error.column)),
    }
}

fn read_yaml<T: DeserializeOwned>(text: &str) -> Result<Vec<Option<T>>, ManifestError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: 0,
            max_depth: MAX_DEPTH,
            max_documents: MAX_OBJECTS,
            max_nodes: MAX_NODES,
            max_total_scalar_bytes: MAX_MANIFEST_BYTES,
            max_recorded_anchor_bytes: MAX_MANIFEST_BYTES,
        },
        // The API server refuses these, too.
        duplicate_keys: DuplicateKeyPolicy::Error,
        no_schema: true,
        // Errors are not shown, and must not copy the text.
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let (line, column) = place(&error);
        ManifestError::Form { line, column }
    })
}

/// The parsers bound the nesting, and so this recursion.
fn collect(raw: Raw, objects: &mut Vec<Object>) -> Result<(), ManifestError> {
    if let Some(items) = raw.items {
        return items.into_iter().try_for_each(|item| collect(item, objects));
    }
    if objects.len() == MAX_OBJECTS {
        return Err(ManifestError::TooManyObjects);
    }
    objects.push(raw.into());
    Ok(())
}

impl From<Raw> for Object {
    fn from(raw: Raw) -> Self {
        let metadata = raw.metadata.unwrap_or_default().into();
        let group = raw.api_version.unwrap_or_default();
        match raw.kind.unwrap_or_default().as_str() {
            "Secret" if group == "v1" => Self::Secret(SecretManifest {
                metadata,
                kind: raw.secret_type.unwrap_or_else(|| "Opaque".to_owned()),
                data: values(raw.data),
                string_data: values(raw.string_data),
            }),
            "Namespace" if group == "v1" => Self::Namespace(metadata),
            "SecretExport" if group.starts_with(EXPORT_GROUP) => {
                let spec = raw.spec.unwrap_or_default();
                let mut to_namespaces = spec.to_namespaces.unwrap_or_default();
                to_namespaces.extend(spec.to_namespace.filter(|name| !name.is_empty()));
                Self::Export(ExportManifest {
                    metadata,
                    to_namespaces,
                    selectors: spec.selectors.unwrap_or_default(),
                })
            }
            kind => Self::Other(kind.to_owned()),
        }
    }
}

impl From<RawMetadata> for Metadata {
    fn from(raw: RawMetadata) -> Self {
        let namespace = raw.namespace.filter(|namespace| !namespace.is_empty());
        Self {
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            name: raw.name.unwrap_or_default(),
            annotations: values(raw.annotations)
                .into_iter()
                .filter(|(key, _)| key != LAST_APPLIED)
                .map(|(key, value)| (key, value.to_string()))
                .collect(),
            labels: values(raw.labels),
        }
    }
}

/// A map without the difference between nothing and the empty value.
fn values<T: Default>(map: Option<BTreeMap<String, Option<T>>>) -> BTreeMap<String, T> {
    let fields = map.unwrap_or_default().into_iter();
    fields.map(|(key, value)| (key, value.unwrap_or_default())).collect()
}
