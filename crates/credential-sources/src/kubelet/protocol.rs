//! Question and answer between kubelet and plugin, as bytes; this project asks, and answers as a
//! plugin of its own.
//!
//! Decoding is as strict as the kubelet's: unknown and repeated keys, another kind or version are
//! errors. No error repeats anything of the text, which may hold passwords anywhere. JSON only, as
//! there.
//!
//! Secrets are moved into memory that is zeroed; of a string with escape sequences the JSON parser
//! leaves fragments behind.

mod json;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

pub(super) use self::json::line;
use self::json::parse;
use super::duration;
use crate::or_default;

/// The longest question or answer; the longest that real plugins write have a few KiB. Free to
/// change.
pub const MAX_MESSAGE_BYTES: usize = 256 << 10;

/// The most keys of an answer. Free to change; real plugins answer a handful.
pub const MAX_AUTH_KEYS: usize = 256;

const REQUEST_KIND: &str = "CredentialProviderRequest";
const RESPONSE_KIND: &str = "CredentialProviderResponse";

/// The version of the protocol that a plugin speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Version {
    /// Kubernetes 1.26 and later.
    V1,
    /// From 1.24 on.
    V1Beta1,
    /// From 1.20 on.
    V1Alpha1,
}

impl Version {
    const ALL: [Self; 3] = [Self::V1, Self::V1Beta1, Self::V1Alpha1];

    /// The `apiVersion` of its messages.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "credentialprovider.kubelet.k8s.io/v1",
            Self::V1Beta1 => "credentialprovider.kubelet.k8s.io/v1beta1",
            Self::V1Alpha1 => "credentialprovider.kubelet.k8s.io/v1alpha1",
        }
    }

    /// The version whose messages have this `apiVersion`.
    #[must_use]
    pub fn of(api_version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.api_version() == api_version)
    }
}

/// For which images an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum CacheKeyType {
    /// For the one that was asked about.
    Image,
    /// For all of its registry.
    Registry,
    /// For all that the plugin is asked about.
    Global,
}

/// User name and password of one key of an answer; both may be empty, which means "anonymous".
/// `Debug` shows neither: some registries take a token as the user name. Serialisation shows both,
/// for the messages and the file that are there to carry them.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The user name.
    #[serde(default, deserialize_with = "or_default")]
    pub username: Zeroizing<String>,
    /// The password.
    #[serde(default, deserialize_with = "or_default")]
    pub password: Zeroizing<String>,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

/// A plugin's answer. Its serialised form is our own.
#[derive(Clone, Deserialize, Serialize)]
pub struct Response {
    /// For which images it holds.
    pub cache_key_type: CacheKeyType,
    /// For how long; `None` leaves it to the configuration, zero forbids to keep it.
    pub cache_duration: Option<Duration>,
    /// By what the pair is for: a host with an optional port and path, with globs.
    pub auth: BTreeMap<String, Pair>,
}

/// Keys and user names may be anything that a broken plugin writes.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("cache_key_type", &self.cache_key_type)
            .field("cache_duration", &self.cache_duration)
            .field("auth", &self.auth.len())
            .finish()
    }
}

/// Why a message is not taken, as a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Longer than [`MAX_MESSAGE_BYTES`].
    #[error("it has more than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
    /// Not JSON, or a key that is unknown, repeated, missing or of another type.
    #[error("it is not the JSON of a {kind} at line {line}, column {column}")]
    Form {
        /// What was expected.
        kind: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// More than [`MAX_AUTH_KEYS`].
    #[error("it has more than {MAX_AUTH_KEYS} keys")]
    TooManyKeys,
    /// Another kind of message.
    #[error("its kind is not {0}")]
    Kind(&'static str),
    /// Another version than that of the question.
    #[error("its apiVersion is not {}", .0.api_version())]
    Version(Version),
    /// No version of the protocol.
    #[error("its apiVersion is not one of credentialprovider.kubelet.k8s.io")]
    UnknownVersion,
    /// Missing or unknown.
    #[error("its cacheKeyType is none of Image, Registry and Global")]
    CacheKeyType,
    /// Not a time.
    #[error("its cacheDuration is {0}")]
    CacheDuration(duration::InvalidDuration),
}

/// The question about `image`, as the kubelet writes it: one line.
#[must_use]
pub fn request(version: Version, image: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a> {
        kind: &'a str,
        #[serde(rename = "apiVersion")]
        api_version: &'a str,
        image: &'a str,
    }
    line(&Request { kind: REQUEST_KIND, api_version: version.api_version(), image }).to_vec()
}

/// A question, read by a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The version to answer in.
    pub version: Version,
    /// The image: its repository without tag and digest.
    pub image: String,
}

impl Request {
    /// Reads a question. A service account's token in it is not kept.
    ///
    /// # Errors
    ///
    /// [`MessageError`].
    pub fn parse(text: &[u8]) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Raw {
            kind: String,
            api_version: String,
            image: String,
            #[serde(default, rename = "serviceAccountToken")]
            _token: IgnoredAny,
            #[serde(default, rename = "serviceAccountAnnotations")]
            _annotations: IgnoredAny,
        }
        let raw: Raw = parse(text, REQUEST_KIND)?;
        if raw.kind != REQUEST_KIND {
            return Err(MessageError::Kind(REQUEST_KIND));
        }
        let version = Version::of(&raw.api_version).ok_or(MessageError::UnknownVersion)?;
        Ok(Self { version, image: raw.image })
    }
}

impl Response {
    /// Reads the answer to a question of `version`.
    ///
    /// # Errors
    ///
    /// [`MessageError`].
    pub fn parse(text: &[u8], version: Version) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Raw {
            kind: Option<String>,
            api_version: Option<String>,
            cache_key_type: Option<Zeroizing<String>>,
            cache_duration: Option<Zeroizing<String>>,
            auth: Option<BTreeMap<String, Option<Pair>>>,
        }
        let raw: Raw = parse(text, RESPONSE_KIND)?;
        if raw.kind.as_deref() != Some(RESPONSE_KIND) {
            return Err(MessageError::Kind(RESPONSE_KIND));
        }
        if raw.api_version.as_deref() != Some(version.api_version()) {
            return Err(MessageError::Version(version));
        }
        let cache_key_type = match raw.cache_key_type.as_deref().map(String::as_str) {
            Some("Image") => CacheKeyType::Image,
            Some("Registry") => CacheKeyType::Registry,
            Some("Global") => CacheKeyType::Global,
            _ => return Err(MessageError::CacheKeyType),
        };
        let cache_duration = raw
            .cache_duration
            .map(|text| duration::parse(&text))
            .transpose()
            .map_err(MessageError::CacheDuration)?
            // A time that is over keeps nothing.
            .map(Option::unwrap_or_default);
        let auth = raw.auth.unwrap_or_default();
        if auth.len() > MAX_AUTH_KEYS {
            return Err(MessageError::TooManyKeys);
        }
        Ok(Self {
            cache_key_type,
            cache_duration,
            auth: auth.into_iter().map(|(key, pair)| (key, pair.unwrap_or_default())).collect(),
        })
    }

    /// The answer's text in `version`, as Go would write it: one line.
    #[must_use]
    pub fn to_bytes(&self, version: Version) -> Zeroizing<Vec<u8>> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw<'a> {
            kind: &'a str,
            api_version: &'a str,
            cache_key_type: CacheKeyType,
            #[serde(skip_serializing_if = "Option::is_none")]
            cache_duration: Option<String>,
            auth: &'a BTreeMap<String, Pair>,
        }
        line(&Raw {
            kind: RESPONSE_KIND,
            api_version: version.api_version(),
            cache_key_type: self.cache_key_type,
            cache_duration: self.cache_duration.map(seconds),
            auth: &self.auth,
        })
    }
}

/// Whole seconds as Go writes times of less than a minute, which it reads at any length.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs())
}
