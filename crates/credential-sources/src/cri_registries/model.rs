//! The entries of `mirrors` and `configs`.

use std::collections::BTreeMap;

use serde::Deserialize;
use zeroize::Zeroizing;

use crate::or_default;

/// The entries of both tables by name.
pub(crate) struct Registries {
    pub(crate) mirrors: BTreeMap<String, Placed<Mirror>>,
    pub(crate) configs: BTreeMap<String, Placed<Config>>,
}

/// A value with the place where it stands.
pub(crate) struct Placed<T> {
    /// The file, printable.
    pub(crate) source: String,
    /// Its key, printable.
    pub(crate) key: String,
    pub(crate) value: T,
}

/// An entry of `mirrors`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Mirror {
    #[serde(deserialize_with = "or_default", rename = "endpoint")]
    pub(crate) endpoints: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) rewrite: BTreeMap<String, String>,
}

/// An entry of `configs`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) auth: Option<Auth>,
    pub(crate) tls: Option<Tls>,
}

/// Its credentials; what is absent is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Auth {
    #[serde(deserialize_with = "or_default")]
    pub(crate) username: Zeroizing<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) password: Zeroizing<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) auth: Zeroizing<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) identity_token: Zeroizing<String>,
}

/// Its TLS settings; what is absent is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Tls {
    #[serde(deserialize_with = "or_default")]
    pub(crate) ca_file: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cert_file: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) key_file: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) insecure_skip_verify: bool,
}

impl Auth {
    pub(crate) fn says_something(&self) -> bool {
        let all = [&self.username, &self.password, &self.auth, &self.identity_token];
        all.iter().any(|text| !text.is_empty())
    }
}
