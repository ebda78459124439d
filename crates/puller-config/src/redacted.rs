//! A document as it may be shown to anyone: secrets replaced, certificates as fingerprints, names in their normal form.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{Credentials, Document, ProxyUrl, Registry, Roots, Secret};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownDocument<'a> {
    extra_env: ShownEnv<'a>,
    registries: BTreeMap<String, ShownRegistry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct ShownEnv<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    http_proxy: Option<&'a ProxyUrl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    https_proxy: Option<&'a ProxyUrl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_proxy: Option<&'a str>,
}

/// The keys of the document, less `auth`, which is shown as the user name and password that it stands for.
#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownRegistry<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<&'a Secret>,
    #[serde(rename = "identitytoken", skip_serializing_if = "Option::is_none")]
    identity_token: Option<&'a Secret>,
    #[serde(rename = "registrytoken", skip_serializing_if = "Option::is_none")]
    registry_token: Option<&'a Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_certs: Option<Vec<String>>,
    insecure_skip_verify: bool,
    plain_http: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror_fallback: Option<bool>,
}

impl Document {
    /// The document as TOML text with every secret replaced by `[redacted]` and every certificate by its SHA-256
    /// fingerprint. Meant for people: it is not a document that could be used.
    #[expect(
        clippy::expect_used,
        reason = "strings, booleans, arrays and string-keyed tables are always TOML"
    )]
    pub fn redacted(&self) -> String {
        toml::to_string(self).expect("a redacted document consists of what TOML can say")
    }
}

/// Serialises the redacted document, never the secrets.
impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let registries = self.registries.iter();
        let shown = ShownDocument {
            extra_env: ShownEnv {
                http_proxy: self.extra_env.http_proxy.as_ref(),
                https_proxy: self.extra_env.https_proxy.as_ref(),
                no_proxy: self.extra_env.no_proxy.as_deref(),
            },
            registries: registries
                .map(|(name, registry)| (name.to_string(), ShownRegistry::of(registry)))
                .collect(),
        };
        shown.serialize(serializer)
    }
}

impl<'a> ShownRegistry<'a> {
    fn of(registry: &'a Registry) -> Self {
        let mirror = registry.mirror.as_ref();
        let shown = Self {
            username: registry.credentials.shown_username(),
            ca_certs: registry.ca_certs.as_ref().map(fingerprints),
            insecure_skip_verify: registry.insecure_skip_verify,
            plain_http: registry.plain_http,
            mirror: mirror.map(|mirror| mirror.url().as_str()),
            mirror_fallback: mirror.map(|_| registry.mirror_fallback),
            ..Self::default()
        };
        match &registry.credentials {
            Credentials::Anonymous => shown,
            Credentials::Basic { password, .. } => Self {
                password: Some(password),
                ..shown
            },
            Credentials::RegistryToken(token) => Self {
                registry_token: Some(token),
                ..shown
            },
            Credentials::IdentityToken { token, .. } => Self {
                identity_token: Some(token),
                ..shown
            },
        }
    }
}

/// The fingerprints of certificates, as `openssl x509 -fingerprint -sha256` computes them.
fn fingerprints(roots: &Roots) -> Vec<String> {
    let fingerprint = |der: &[u8]| {
        let mut shown = String::from("sha256:");
        for byte in Sha256::digest(der) {
            // Writing to a string does not fail.
            let _ = write!(shown, "{byte:02x}");
        }
        shown
    };
    roots
        .certificates()
        .iter()
        .map(|certificate| fingerprint(certificate))
        .collect()
}
