//! What a namespace without a document gets.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::at_line::{AtLine, Broken};
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

impl NamespaceFallback {
    /// Reads the value of the key.
    pub(super) fn parse(found: AtLine<String>) -> Result<AtLine<Self>, Broken> {
        let AtLine { line, value } = found;
        let broken = |rule: &str| Err((line, format!("namespace-fallback: {rule}")));
        let value = match value.as_str() {
            "refuse" => Self::Refuse,
            "none" => Self::None,
            path if !Path::new(path).is_absolute() => {
                return broken("neither \"refuse\" nor \"none\" nor an absolute path");
            }
            path if is_pattern(path.as_ref()) || path.contains(PLACEHOLDER) => {
                return broken("not the path of one document");
            }
            _ => {
                let value = PathBuf::from(value);
                let path = AtLine { line, value }.plain("namespace-fallback")?;
                Self::Document(path.value)
            }
        };
        Ok(AtLine { line, value })
    }
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
