//! The kubelet's `CredentialProviderConfig`: which plugins there are, for which images, and how
//! they are started.
//!
//! A text is read as strictly as the kubelet reads it, in any of its versions, as YAML or JSON, and
//! several texts become one list. Values of `env` may be secrets, so no error repeats a value.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use puller_config::Secret;
use serde::Deserialize;
use serde_saphyr::DuplicateKeyPolicy;
use zeroize::Zeroizing;

use super::duration;
use super::matching::Pattern;
use super::protocol::Version;

/// The longest text. Free to change; real ones have a few KiB.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

/// The most plugins of all texts together. Free to change; a node has one or two.
pub const MAX_PROVIDERS: usize = 64;

/// The most nodes of a YAML text: bounds what aliases can make of it. Free to change.
const MAX_NODES: usize = 100_000;

const KIND: &str = "CredentialProviderConfig";

/// The versions of the text; they differ in nothing but `tokenAttributes`, which only the first
/// has.
const API_VERSIONS: [&str; 3] = [
    "kubelet.config.k8s.io/v1",
    "kubelet.config.k8s.io/v1beta1",
    "kubelet.config.k8s.io/v1alpha1",
];

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
    names: BTreeSet<String>,
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
        let (mut list, mut names) = (Vec::new(), self.names.clone());
        for (index, provider) in raw.into_iter().enumerate() {
            let number = index + 1;
            if !is_file_name(&provider.name) {
                return Err(ConfigError::Name { number });
            }
            if !names.insert(provider.name.clone()) {
                return Err(ConfigError::DuplicateName { number });
            }
            let name = provider.name.clone();
            let checked = provider.check(is_first);
            list.push(checked.map_err(|rule| ConfigError::Provider { name, rule })?);
        }
        self.list.append(&mut list);
        self.names = names;
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawConfig {
    kind: String,
    api_version: String,
    providers: Option<Vec<RawProvider>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawProvider {
    name: String,
    match_images: Option<Vec<String>>,
    default_cache_duration: Option<String>,
    api_version: String,
    args: Option<Vec<String>>,
    env: Option<Vec<RawVariable>>,
    token_attributes: Option<RawTokenAttributes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariable {
    name: String,
    #[serde(default)]
    value: Zeroizing<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawTokenAttributes {
    service_account_token_audience: Option<String>,
    cache_type: Option<String>,
    require_service_account: Option<bool>,
    required_service_account_annotation_keys: Option<Vec<String>>,
    optional_service_account_annotation_keys: Option<Vec<String>>,
}

impl RawConfig {
    fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        if text.len() > MAX_CONFIG_BYTES {
            return Err(ConfigError::TooLong);
        }
        let utf8 = str::from_utf8(text).map_err(|_| ConfigError::Form {
            line: 0,
            column: 0,
            rule: "not UTF-8".into(),
        })?;
        // As Kubernetes tells the two apart.
        if utf8.trim_ascii_start().starts_with('{') {
            return serde_json::from_str(utf8).map_err(|error| ConfigError::Form {
                line: error.line() as u64,
                column: error.column() as u64,
                rule: form_rule(None),
            });
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_documents: 1,
                max_nodes: MAX_NODES,
                max_total_scalar_bytes: 2 * MAX_CONFIG_BYTES,
                max_recorded_anchor_bytes: 2 * MAX_CONFIG_BYTES,
            },
            duplicate_keys: DuplicateKeyPolicy::Error,
            // A number where Kubernetes wants a text is an error there, too.
            no_schema: true,
            with_snippet: false,
        };
        serde_saphyr::from_str_with_options(utf8, options).map_err(|error| {
            let place = error.location();
            ConfigError::Form {
                line: place.map_or(0, |place| place.line()),
                column: place.map_or(0, |place| place.column()),
                rule: form_rule(Some(&error)),
            }
        })
    }
}

/// What is wrong, by the parser's words where they name keys only.
fn form_rule(error: Option<&serde_saphyr::Error>) -> String {
    match error.map(serde_saphyr::Error::without_snippet) {
        Some(serde_saphyr::Error::SerdeUnknownField { field, .. })
            if field.len() <= 64 && field.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            format!("the key {field} is not known here")
        }
        Some(serde_saphyr::Error::SerdeMissingField { field, .. }) => {
            format!("the key {field} is missing")
        }
        _ => format!("not what a {KIND} has there"),
    }
}

impl RawProvider {
    fn check(self, tokens_are_known: bool) -> Result<Provider, &'static str> {
        let patterns = self.match_images.unwrap_or_default();
        if patterns.is_empty() {
            return Err("matchImages names no image");
        }
        let patterns = patterns
            .iter()
            .map(|pattern| Pattern::parse(pattern))
            .collect::<Result<_, _>>()
            .map_err(|_| "an entry of matchImages is not a host with an optional port and path")?;
        let version = Version::of(&self.api_version)
            .ok_or("apiVersion is not one of credentialprovider.kubelet.k8s.io")?;
        let default_cache = self
            .default_cache_duration
            .ok_or("defaultCacheDuration is missing")?;
        let default_cache = duration::parse(&default_cache)
            .map_err(|_| "defaultCacheDuration is not a time such as \"10m\"")?
            .ok_or("defaultCacheDuration is negative")?;
        if let Some(attributes) = &self.token_attributes {
            if !tokens_are_known || version != Version::V1 {
                return Err("tokenAttributes is not known before v1");
            }
            attributes.check()?;
        }
        let env = self.env.unwrap_or_default().into_iter();
        Ok(Provider {
            name: self.name,
            patterns,
            default_cache,
            version,
            args: self.args.unwrap_or_default(),
            env: env
                .map(|variable| (variable.name, variable.value.into()))
                .collect(),
            wants_token: self.token_attributes.is_some(),
        })
    }
}

impl RawTokenAttributes {
    fn check(&self) -> Result<(), &'static str> {
        if self
            .service_account_token_audience
            .as_deref()
            .is_none_or(str::is_empty)
        {
            return Err("serviceAccountTokenAudience is missing");
        }
        if !matches!(self.cache_type.as_deref(), Some("Token" | "ServiceAccount")) {
            return Err("cacheType is neither Token nor ServiceAccount");
        }
        let required = self
            .require_service_account
            .ok_or("requireServiceAccount is missing")?;
        let empty = Vec::new();
        let [needed, wanted] = [
            &self.required_service_account_annotation_keys,
            &self.optional_service_account_annotation_keys,
        ]
        .map(|keys| keys.as_ref().unwrap_or(&empty));
        if !required && !needed.is_empty() {
            return Err("requiredServiceAccountAnnotationKeys needs requireServiceAccount");
        }
        let mut seen = BTreeSet::new();
        if !needed.iter().chain(wanted).all(|key| seen.insert(key)) {
            return Err("an annotation key stands twice");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
