//! The kubelet's `CredentialProviderConfig`: which plugins there are, for which images, and how
//! they are started.
//!
//! A text is read as strictly as the kubelet reads it, in any of its versions, as YAML or JSON, and
//! several texts become one list. Values of `env` may be secrets, so no error repeats a value.

mod raw;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use registry_config::Secret;

use self::raw::RawConfig;
use super::matching::Pattern;
use super::protocol::Version;

/// The longest text. Free to change; real ones have a few KiB.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

/// The most plugins of all texts together. Free to change; a node has one or two.
pub const MAX_PROVIDERS: usize = 64;

const KIND: &str = "CredentialProviderConfig";

/// The versions of the text; they differ in nothing but `tokenAttributes`, which only the first
/// has.
const API_VERSIONS: [&str; 3] =
    ["kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"];

/// One plugin.
#[derive(Clone)]
pub struct Provider {
    /// Its name, which is the file name of its program. Unique, free of separators.
    pub name: String,
    /// The images that it is asked about.
    pub patterns: Vec<Pattern>,
    /// How long its answers may be kept where they say nothing about that.
    pub default_cache: Duration,
    /// The version of the protocol that it speaks.
    pub version: Version,
    /// Its arguments.
    pub args: Vec<String>,
    /// What its environment has besides this process's.
    pub env: Vec<(String, Secret)>,
    /// Whether it wants a service account's token, which only the kubelet can have.
    pub wants_token: bool,
}

/// Arguments and environment may hold secrets.
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("patterns", &self.patterns)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Why a text is not used, as a fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Longer than [`MAX_CONFIG_BYTES`].
    #[error("it has more than {MAX_CONFIG_BYTES} bytes")]
    TooLong,
    /// Not YAML or JSON, or a key that is unknown, repeated, missing or of another type.
    #[error("line {line}, column {column}: {rule}")]
    Form {
        /// The line, from 1; 0 where there is none.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// What is wrong, without a value.
        rule: String,
    },
    /// Another kind or version.
    #[error("it is not a {KIND} of kubelet.config.k8s.io v1, v1beta1 or v1alpha1")]
    Kind,
    /// `providers` is empty or missing.
    #[error("it names no provider")]
    NoProvider,
    /// More than [`MAX_PROVIDERS`].
    #[error("there are more than {MAX_PROVIDERS} providers")]
    TooManyProviders,
    /// A provider's name cannot be a file's.
    #[error("the name of provider {number} is not that of a file in one directory")]
    Name {
        /// Which one, from 1.
        number: usize,
    },
    /// Two providers have one name.
    #[error("provider {number} has the name of another one")]
    DuplicateName {
        /// Which one, from 1.
        number: usize,
    },
    /// A rule about one provider is broken.
    #[error("provider \"{name}\": {rule}")]
    Provider {
        /// Its name.
        name: String,
        /// The rule.
        rule: &'static str,
    },
}

/// The plugins of all texts, in their order; no two have the same name.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    list: Vec<Provider>,
}

impl Providers {
    /// Adds what one more text says.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]; nothing is added then.
    pub fn add(&mut self, text: &[u8]) -> Result<(), ConfigError> {
        let raw = RawConfig::parse(text)?;
        let is_first = raw.api_version == API_VERSIONS[0];
        if raw.kind != KIND || !API_VERSIONS.contains(&raw.api_version.as_str()) {
            return Err(ConfigError::Kind);
        }
        let raw = raw.providers.unwrap_or_default();
        if raw.is_empty() {
            return Err(ConfigError::NoProvider);
        }
        if self.list.len() + raw.len() > MAX_PROVIDERS {
            return Err(ConfigError::TooManyProviders);
        }
        let mut list = self.list.clone();
        for (index, provider) in raw.into_iter().enumerate() {
            let number = index + 1;
            if !is_file_name(&provider.name) {
                return Err(ConfigError::Name { number });
            }
            if list.iter().any(|known| known.name == provider.name) {
                return Err(ConfigError::DuplicateName { number });
            }
            let name = provider.name.clone();
            let checked = provider.check(is_first);
            list.push(checked.map_err(|rule| ConfigError::Provider { name, rule })?);
        }
        self.list = list;
        Ok(())
    }

    /// The plugins, in the order in which the kubelet takes their answers.
    #[must_use]
    pub fn list(&self) -> &[Provider] {
        &self.list
    }
}

/// Whether the kubelet takes it for the name of a plugin; control characters, which it takes, are
/// no part of an honest one.
fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != "."
        && name != ".."
        && !name.contains(['/', ' '])
        && !name.contains(char::is_control)
}
