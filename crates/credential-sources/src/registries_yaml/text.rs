//! The YAML of the file.

use std::collections::BTreeMap;

use foreign_text::toml::join;
use serde::Deserialize;
use serde_ignored::Path;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::MAX_REGISTRIES_YAML_BYTES;
use crate::cri_registries::{Config, Mirror};
use crate::or_default;

/// How many registries are looked at.
const MAX_KEYS: usize = 1024;

/// A mapping whose values may be null, as in a file whose author has not filled it in yet.
pub(super) type Table<T> = BTreeMap<String, Option<T>>;

/// The whole file.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct File {
    #[serde(deserialize_with = "or_default")]
    pub(super) mirrors: Table<Mirror>,
    #[serde(deserialize_with = "or_default")]
    pub(super) configs: Table<Config>,
}

/// Parses a file. Each key that is not known is given to `unknown`, with its path.
///
/// # Errors
///
/// What is wrong with it, and where; never a part of it.
pub(super) fn parse(bytes: &[u8], mut unknown: impl FnMut(&str)) -> Result<File, String> {
    if bytes.len() > MAX_REGISTRIES_YAML_BYTES {
        return Err(format!("the file has more than {MAX_REGISTRIES_YAML_BYTES} bytes"));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 16,
            max_documents: 1,
            max_nodes: 64 << 10,
            max_total_scalar_bytes: 2 * MAX_REGISTRIES_YAML_BYTES,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    let file = serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |yaml| {
        serde_ignored::deserialize(yaml, |path| unknown(&shown(&path)))
    });
    // The parser's own message may quote the file.
    let file: Option<File> = file.map_err(|error| {
        let place = error
            .location()
            .map_or(String::new(), |location| format!(" at line {}", location.line()));
        format!(
            "not YAML of the form of registries.yaml{place}: a syntax error, a key twice, a \
            value of another type, or more than is read"
        )
    })?;
    let file = file.unwrap_or_default();
    if file.mirrors.len().max(file.configs.len()) > MAX_KEYS {
        return Err(format!("the file has more than {MAX_KEYS} registries"));
    }
    Ok(file)
}

/// The path of a key; the parser bounds its depth.
fn shown(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Map { parent, key } => join(&shown(parent), key),
        Path::Seq { parent, index } => format!("{}[{index}]", shown(parent)),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => shown(parent),
    }
}
