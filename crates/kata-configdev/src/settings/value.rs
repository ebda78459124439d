//! The rules of single values. What breaks one gets its key from the reader of the text.

use std::fmt::Display;
use std::path::{Component, PathBuf};

use registry_config::{MAX_NODE_ERROR_BYTES, NodeError};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::document_pattern;
use crate::namespace_path::NamespacePath;

/// What begins a message that needs the key of the value before it.
pub const BEHIND_KEY: &str = ": ";

/// The error of a value that breaks `rule`.
pub fn broken<E: Error>(rule: impl Display) -> E {
    E::custom(format_args!("{BEHIND_KEY}{rule}"))
}

/// Requires an absolute path.
pub fn absolute<E: Error>(path: PathBuf) -> Result<PathBuf, E> {
    if path.is_absolute() { Ok(path) } else { Err(broken("not an absolute path")) }
}

/// Requires a path that says where it leads: absolute and without `..`.
pub fn plain<E: Error>(path: PathBuf) -> Result<PathBuf, E> {
    let path = absolute(path)?;
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(broken("a directory has \"..\" in it"));
    }
    Ok(path)
}

/// An absolute path, also one that need not be there.
pub fn program<'de, D: Deserializer<'de>, P: From<PathBuf>>(from: D) -> Result<P, D::Error> {
    absolute(PathBuf::deserialize(from)?).map(P::from)
}

pub fn directory<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    plain(PathBuf::deserialize(from)?)
}

pub fn document<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    let path = absolute(PathBuf::deserialize(from)?)?;
    document_pattern::check(&path).map_err(broken)?;
    Ok(Some(path))
}

pub fn reason<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NodeError>, D::Error> {
    let text = String::deserialize(from)?;
    match text.len() {
        0 => Err(broken("empty")),
        1..=MAX_NODE_ERROR_BYTES => Ok(Some(NodeError::new(&text))),
        _ => Err(broken(format_args!("longer than {MAX_NODE_ERROR_BYTES} bytes"))),
    }
}

pub fn allowed<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    /// A type of its own, so that a mistake has the line of its element.
    #[derive(Deserialize)]
    struct Allowed(#[serde(deserialize_with = "allowed_one")] PathBuf);

    let list = Vec::<Allowed>::deserialize(from)?;
    Ok(list.into_iter().map(|one| one.0).collect())
}

fn allowed_one<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let path = directory(from)?;
    NamespacePath::parse(&path).map_err(broken)?;
    Ok(path)
}
