//! The JSON of docker's files, read as Go programs read it: keys in any case, `null` for nothing,
//! the last of two counts.

use foreign_text::json::{self, Duplicates, JsonError, JsonRule, Kind, Limits, Object, Value};
use foreign_text::position::Position;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{DockerConfig, Entry, MAX_CONFIG_BYTES, MAX_ENTRIES, MAX_VALUES};

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
    /// Base64 of an object.
    #[error("it is base64 of JSON, not JSON: encoded once too often")]
    Base64,
    /// JSON of another shape.
    #[error(
        "it is not a docker configuration: line {line}, column {column} has a value of another type"
    )]
    WrongType {
        /// The line, from 1.
        line: usize,
        /// The column of the value, from 1.
        column: usize,
    },
    /// More than [`MAX_ENTRIES`].
    #[error("a docker configuration has at most {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// More than [`MAX_VALUES`].
    #[error("a docker configuration has at most {MAX_VALUES} values")]
    TooManyValues,
}

impl ConfigError {
    /// The same without a place, for a file that the reader of the message may not see: a place
    /// tells how long the values are.
    #[must_use]
    pub const fn without_place(&self) -> &'static str {
        match self {
            Self::TooLong => "it is longer than any docker configuration",
            Self::NotJson { .. } | Self::Base64 => "it is not JSON",
            Self::WrongType { .. } => "it is not a docker configuration",
            Self::TooManyEntries => "it has more entries than any docker configuration",
            Self::TooManyValues => "it has more values than any docker configuration",
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
    const KNOWN: [&str; 7] = [
        "auths",
        "credhelpers",
        "credsstore",
        "httpheaders",
        "currentcontext",
        "plugins",
        "proxies",
    ];
    let file = File(text);
    let value = file.read()?;
    let keys = file.object(&value)?;
    if keys.last("apiVersion").is_some() && keys.last("kind").is_some() {
        return Ok(Shape::Manifest);
    }
    let is_known = |(key, _): (&str, _)| KNOWN.contains(&key.to_ascii_lowercase().as_str());
    let is_config = keys.is_empty() || keys.members().any(is_known);
    Ok(if is_config { Shape::Config } else { Shape::Legacy })
}

impl DockerConfig {
    /// Reads `config.json`, `auth.json` or `.dockerconfigjson`: an object with `auths`. Empty
    /// objects are valid.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]; it holds no value.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        let file = File::bounded(text)?;
        let value = file.read()?;
        let mut config = Self::default();
        let mut tables = 0;
        for (key, value) in file.object(&value)?.members() {
            match key.to_ascii_lowercase().as_str() {
                "auths" => {
                    tables += 1;
                    // As in Go: a second object adds to the first, and nothing means none.
                    match file.optional(value)? {
                        Some(more) => config.add_entries(&file, more)?,
                        None => {
                            config.entries.clear();
                            config.repeated.clear();
                        }
                    }
                }
                "credhelpers" => {
                    let helpers = file.optional(value)?.map(Object::members);
                    let text = |value| file.text(value).ok().flatten().unwrap_or_default();
                    let helpers = helpers.into_iter().flatten();
                    config.helpers = helpers
                        .map(|(registry, value)| (registry.to_owned(), text(value).to_owned()))
                        .collect();
                }
                "credsstore" => {
                    let store = file.text(value)?.filter(|store| !store.is_empty());
                    config.store = store.map(str::to_owned);
                }
                "httpheaders" => {
                    let headers = file.optional(value)?;
                    config.has_headers = headers.is_some_and(|headers| !headers.is_empty());
                }
                _ => {}
            }
        }
        config.has_several_tables = tables > 1;
        Ok(config)
    }

    /// Reads the older `.dockercfg`, which is what `auths` is in the others.
    ///
    /// # Errors
    ///
    /// As [`DockerConfig::parse`].
    pub fn parse_legacy(text: &[u8]) -> Result<Self, ConfigError> {
        let file = File::bounded(text)?;
        let value = file.read()?;
        let mut config = Self::default();
        config.add_entries(&file, file.object(&value)?)?;
        Ok(config)
    }

    fn add_entries(&mut self, file: &File<'_>, auths: &Object<'_>) -> Result<(), ConfigError> {
        if auths.members().count() > MAX_ENTRIES {
            return Err(ConfigError::TooManyEntries);
        }
        for (key, value) in auths.members() {
            let entry = match file.optional(value)? {
                Some(members) => file.entry(members)?,
                None => Entry::default(),
            };
            if self.entries.insert(key.to_owned(), entry).is_some() {
                self.repeated.push(key.to_owned());
            }
        }
        if self.entries.len() > MAX_ENTRIES {
            return Err(ConfigError::TooManyEntries);
        }
        Ok(())
    }
}

/// Whether a text is base64 of a brace and what may follow it.
fn is_base64(text: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=\r\n".contains(byte);
    [b"ey", b"ew"].iter().any(|start| text.starts_with(*start)) && text.iter().all(is_letter)
}

/// A file whose values are read; it says where one of another type is.
struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    fn bounded(text: &'a [u8]) -> Result<Self, ConfigError> {
        if text.len() > MAX_CONFIG_BYTES {
            return Err(ConfigError::TooLong);
        }
        Ok(Self(text))
    }

    fn read(&self) -> Result<Value<'a>, ConfigError> {
        let limits = Limits { bytes: self.0.len(), values: MAX_VALUES, depth: json::MAX_DEPTH };
        let refusal = |JsonError { rule, line, column }| match rule {
            JsonRule::TooManyValues(_) => ConfigError::TooManyValues,
            _ if is_base64(self.0) => ConfigError::Base64,
            _ => ConfigError::NotJson { line, column },
        };
        json::read(self.0, limits, Duplicates::Kept).map_err(refusal)
    }

    fn wrong_type(&self, value: &Value<'_>) -> ConfigError {
        let Position { line, column } = Position::of(self.0, value.offset);
        ConfigError::WrongType { line, column }
    }

    fn object<'o>(&self, value: &'o Value<'a>) -> Result<&'o Object<'a>, ConfigError> {
        value.object().ok_or_else(|| self.wrong_type(value))
    }

    /// An object; `None` for `null`.
    fn optional<'o>(&self, value: &'o Value<'a>) -> Result<Option<&'o Object<'a>>, ConfigError> {
        match &value.kind {
            Kind::Null => Ok(None),
            _ => self.object(value).map(Some),
        }
    }

    /// A text; `None` for `null`.
    fn text<'o>(&self, value: &'o Value<'a>) -> Result<Option<&'o str>, ConfigError> {
        match &value.kind {
            Kind::Null => Ok(None),
            Kind::Text(text) => Ok(Some(text)),
            _ => Err(self.wrong_type(value)),
        }
    }

    fn entry(&self, members: &Object<'a>) -> Result<Entry, ConfigError> {
        let mut entry = Entry::default();
        let mut seen: Vec<String> = Vec::new();
        for (key, value) in members.members() {
            let name = key.to_ascii_lowercase();
            let field = match name.as_str() {
                "username" => &mut entry.username,
                "password" => &mut entry.password,
                "auth" => &mut entry.auth,
                "identitytoken" => &mut entry.identity_token,
                "registrytoken" => &mut entry.registry_token,
                _ => continue,
            };
            // As in Go, `null` changes nothing.
            if let Some(text) = self.text(value)? {
                *field = Zeroizing::new(text.to_owned());
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
