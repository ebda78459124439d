//! What a namespace without a document gets.

use std::path::{Path, PathBuf};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::value;
use crate::document_pattern::is_pattern;
use crate::namespace_path::PLACEHOLDER;

/// What a pod gets whose namespace has no document, where the settings have documents by namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamespaceFallback {
    /// Nothing: its sandbox does not start, or pulls nothing.
    #[default]
    Refuse,
    /// What it would get if the settings named no document.
    None,
    /// This document.
    Document(PathBuf),
}

impl<'de> Deserialize<'de> for NamespaceFallback {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = String::deserialize(deserializer)?;
        let rule = match value.as_str() {
            "refuse" => return Ok(Self::Refuse),
            "none" => return Ok(Self::None),
            path if !Path::new(path).is_absolute() => {
                "neither \"refuse\" nor \"none\" nor an absolute path"
            }
            _ => return one(value.into()).map(Self::Document),
        };
        Err(value::broken(rule))
    }
}

pub fn base<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    one(PathBuf::deserialize(from)?).map(Some)
}

/// Requires the path of one document.
fn one<E: Error>(path: PathBuf) -> Result<PathBuf, E> {
    if is_pattern(&path) || path.to_string_lossy().contains(PLACEHOLDER) {
        return Err(value::broken("not the path of one document"));
    }
    value::plain(path)
}

/// As the settings have it.
impl Serialize for NamespaceFallback {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Refuse => "refuse".serialize(serializer),
            Self::None => "none".serialize(serializer),
            Self::Document(path) => path.serialize(serializer),
        }
    }
}
