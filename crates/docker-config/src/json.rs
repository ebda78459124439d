//! The JSON of docker's files, read as Go programs read it: keys in any case, `null` for nothing,
//! the last of two counts.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{DockerConfig, Entry, MAX_CONFIG_BYTES, MAX_ENTRIES};

/// Why a file is refused as a whole. Never quotes it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Longer than [`MAX_CONFIG_BYTES`].
    #[error("a docker configuration has at most {MAX_CONFIG_BYTES} bytes")]
    TooLong,
    /// Not JSON at all.
    #[error("it is not JSON: line {line}, column {column}")]
    NotJson {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// JSON of another shape.
    #[error(
        "it is not a docker configuration: line {line}, column {column} has a value of another type"
    )]
    WrongType {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// More than [`MAX_ENTRIES`].
    #[error("a docker configuration has at most {MAX_ENTRIES} entries")]
    TooManyEntries,
}

impl ConfigError {
    /// The same without a place, for a file that whoever reads the message may not see: a place
    /// tells how long the values are.
    #[must_use]
    pub const fn without_place(&self) -> &'static str {
        match self {
            Self::TooLong => "it is longer than any docker configuration",
            Self::NotJson { .. } => "it is not JSON",
            Self::WrongType { .. } => "it is not a docker configuration",
            Self::TooManyEntries => "it has more entries than any docker configuration",
        }
    }
}

/// What a JSON file looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An object with `auths`, or with other keys of docker's configuration, or with nothing.
    Config,
    /// An object of entries.
    Legacy,
    /// An object with `apiVersion` and `kind`.
    Manifest,
}

/// Tells a docker configuration from the older form and from a manifest, by the keys of the
/// outermost object. The caller bounds the text.
///
/// # Errors
///
/// [`ConfigError`] if the text is no JSON object.
pub fn shape(text: &[u8]) -> Result<Shape, ConfigError> {
    let keys: Map<IgnoredAny> = read(text)?;
    let has = |name: &str| keys.last.keys().any(|key| key == name);
    if has("apiVersion") && has("kind") {
        return Ok(Shape::Manifest);
    }
    let is_config = |key: &String| {
        let known = [
            "auths",
            "credhelpers",
            "credsstore",
            "httpheaders",
            "currentcontext",
            "plugins",
            "proxies",
        ];
        known.contains(&key.to_ascii_lowercase().as_str())
    };
    let config = keys.last.is_empty() || keys.last.keys().any(is_config);
    Ok(if config { Shape::Config } else { Shape::Legacy })
}

pub(crate) fn parse_config(text: &[u8]) -> Result<DockerConfig, ConfigError> {
    check_length(text)?;
    let Top(mut config, auths) = read(text)?;
    config.take_entries(auths)?;
    Ok(config)
}

pub(crate) fn parse_legacy(text: &[u8]) -> Result<DockerConfig, ConfigError> {
    check_length(text)?;
    let mut config = DockerConfig::default();
    config.take_entries(read(text)?)?;
    Ok(config)
}

impl DockerConfig {
    fn take_entries(&mut self, auths: Map<Option<Entry>>) -> Result<(), ConfigError> {
        if auths.is_too_long {
            return Err(ConfigError::TooManyEntries);
        }
        self.repeated.extend(auths.repeated);
        let entries = auths.last.into_iter();
        self.entries = entries
            .map(|(key, entry)| (key, entry.unwrap_or_default()))
            .collect();
        Ok(())
    }
}

fn check_length(text: &[u8]) -> Result<(), ConfigError> {
    if text.len() > MAX_CONFIG_BYTES {
        return Err(ConfigError::TooLong);
    }
    Ok(())
}

/// Reads JSON; `serde_json` bounds the nesting. Its errors may quote a value and are not shown.
fn read<'t, T: Deserialize<'t>>(text: &'t [u8]) -> Result<T, ConfigError> {
    serde_json::from_slice(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() {
            ConfigError::WrongType { line, column }
        } else {
            ConfigError::NotJson { line, column }
        }
    })
}

/// An object whose keys are data.
#[derive(Debug)]
struct Map<T> {
    last: BTreeMap<String, T>,
    repeated: Vec<String>,
    /// Whether it has more than [`MAX_ENTRIES`] keys; the rest is not kept.
    is_too_long: bool,
}

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self {
            last: BTreeMap::new(),
            repeated: Vec::new(),
            is_too_long: false,
        }
    }
}

impl<T> Map<T> {
    fn extend(&mut self, more: Self) {
        for (key, value) in more.last {
            if self.last.insert(key.clone(), value).is_some() {
                self.repeated.push(key);
            }
        }
        self.repeated.extend(more.repeated);
        self.is_too_long |= more.is_too_long || self.last.len() > MAX_ENTRIES;
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<T>(Map<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
            type Value = Map<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<T>, A::Error> {
                let mut read = self.0;
                let mut count = 0;
                while let Some(key) = map.next_key::<String>()? {
                    count += 1;
                    if count > MAX_ENTRIES {
                        read.is_too_long = true;
                        map.next_value::<IgnoredAny>()?;
                    } else if read.last.insert(key.clone(), map.next_value()?).is_some() {
                        read.repeated.push(key);
                    }
                }
                Ok(read)
            }
        }
        deserializer.deserialize_map(Keys(Self::default()))
    }
}

/// The outermost object of `config.json`.
struct Top(DockerConfig, Map<Option<Entry>>);

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Top;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Top, A::Error> {
                let mut config = DockerConfig::default();
                let mut auths = Map::default();
                let mut tables = 0;
                while let Some(key) = map.next_key::<String>()? {
                    match key.to_ascii_lowercase().as_str() {
                        "auths" => {
                            tables += 1;
                            // As in Go: a second object adds to the first, and nothing means none.
                            match map.next_value::<Option<Map<_>>>()? {
                                Some(more) => auths.extend(more),
                                None => auths = Map::default(),
                            }
                        }
                        "credhelpers" => {
                            let helpers: Option<Map<IgnoredAny>> = map.next_value()?;
                            config.helpers = helpers.unwrap_or_default().last.into_keys().collect();
                        }
                        "credsstore" => {
                            let store: Option<String> = map.next_value()?;
                            config.has_store = store.is_some_and(|store| !store.is_empty());
                        }
                        "httpheaders" => {
                            let headers: Option<Map<IgnoredAny>> = map.next_value()?;
                            config.has_headers =
                                headers.is_some_and(|headers| !headers.last.is_empty());
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                config.has_several_tables = tables > 1;
                Ok(Top(config, auths))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
                let mut entry = Entry::default();
                let mut seen: Vec<String> = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let name = key.to_ascii_lowercase();
                    let field = match name.as_str() {
                        "username" => &mut entry.username,
                        "password" => &mut entry.password,
                        "auth" => &mut entry.auth,
                        "identitytoken" => &mut entry.identity_token,
                        "registrytoken" => &mut entry.registry_token,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    // As in Go, `null` changes nothing.
                    if let Some(value) = map.next_value::<Option<Zeroizing<String>>>()? {
                        *field = value;
                    }
                    // At most the five members above.
                    if seen.contains(&name) {
                        entry.is_ambiguous = true;
                    } else {
                        seen.push(name);
                    }
                }
                Ok(entry)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}
