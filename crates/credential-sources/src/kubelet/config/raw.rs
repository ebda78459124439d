//! The text of a configuration, with the names that Kubernetes has for its keys.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_saphyr::DuplicateKeyPolicy;
use zeroize::Zeroizing;

use super::{ConfigError, KIND, MAX_CONFIG_BYTES, Provider};
use crate::kubelet::duration;
use crate::kubelet::matching::Pattern;
use crate::kubelet::protocol::Version;
use crate::{or_default, place};

/// The most nodes of a YAML text: bounds what aliases can make of it. Free to change.
const MAX_NODES: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawConfig {
    pub(super) kind: String,
    pub(super) api_version: String,
    pub(super) providers: Option<Vec<RawProvider>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawProvider {
    pub(super) name: String,
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
    // Null as well as nothing is an empty text, as Go reads both.
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
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
    pub(super) fn parse(text: &[u8]) -> Result<Self, ConfigError> {
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
            let (line, column) = place(&error);
            let rule = form_rule(Some(&error));
            ConfigError::Form { line, column, rule }
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
    pub(super) fn check(self, tokens_are_known: bool) -> Result<Provider, &'static str> {
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
        let default_cache = self.default_cache_duration.ok_or("defaultCacheDuration is missing")?;
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
            // No program can see a variable without a name.
            env: env
                .filter(|variable| !variable.name.is_empty())
                .map(|variable| (variable.name, variable.value.into()))
                .collect(),
            wants_token: self.token_attributes.is_some(),
        })
    }
}

impl RawTokenAttributes {
    fn check(&self) -> Result<(), &'static str> {
        if self.service_account_token_audience.as_deref().is_none_or(str::is_empty) {
            return Err("serviceAccountTokenAudience is missing");
        }
        if !matches!(self.cache_type.as_deref(), Some("Token" | "ServiceAccount")) {
            return Err("cacheType is neither Token nor ServiceAccount");
        }
        let required = self.require_service_account.ok_or("requireServiceAccount is missing")?;
        let [needed, wanted] = [
            &self.required_service_account_annotation_keys,
            &self.optional_service_account_annotation_keys,
        ]
        .map(|keys| keys.as_deref().unwrap_or_default());
        if !required && !needed.is_empty() {
            return Err("requiredServiceAccountAnnotationKeys needs requireServiceAccount");
        }
        let mut seen = BTreeSet::new();
        if !needed.iter().chain(wanted).all(|key| seen.insert(key)) {
            return Err("an annotation key stands twice");
        }
        if !needed.iter().chain(wanted).all(|key| is_qualified(key)) {
            return Err("an annotation key is not a name with an optional DNS name before it");
        }
        Ok(())
    }
}

/// Whether Kubernetes takes a text for the key of an annotation, whose case does not matter
/// (`IsQualifiedName`): a name, and perhaps a DNS name and a slash before it.
fn is_qualified(key: &str) -> bool {
    let key = key.to_lowercase();
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key.as_str()),
    };
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = |text: &str, longest: usize| {
        let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = text.as_bytes();
        text.len() <= longest
            && is_end(bytes.first())
            && is_end(bytes.last())
            && bytes.iter().all(|byte| is_inner(*byte))
    };
    let is_dns = |text: &str| {
        let mut labels = text.split('.');
        text.len() <= 253 && labels.all(|label| is_name(label, 253) && !label.contains('_'))
    };
    is_name(name, 63) && prefix.is_none_or(is_dns)
}
