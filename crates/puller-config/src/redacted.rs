//! A document as it may be shown to anyone: secrets replaced, certificates as fingerprints, names
//! in their normal form.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{
    AttesterKind, Credentials, DecryptionKey, Document, NodeError, ProxyUrl, Registry,
    ResourceSource, Resources, Roots, Secret, SecretReference,
};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_error: Option<&'a NodeError>,
    extra_env: ShownEnv<'a>,
    registries: BTreeMap<String, ShownRegistry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decryption_keys: Option<ShownKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ShownResources<'a>>,
}

#[derive(Serialize)]
struct ShownKeys {
    keys: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownResources<'a> {
    sources: &'a [ResourceSource],
    #[serde(skip_serializing_if = "Option::is_none")]
    kbs_ca_certs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kbs_token_file: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kbs_attester: Option<AttesterKind>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    from: BTreeMap<&'a str, &'a ResourceSource>,
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

/// The keys of the document, less `auth`, which is shown as the user name and password that it
/// stands for.
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
    credentials_uri: Option<&'a SecretReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_optional: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_certs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_certs_uri: Option<&'a SecretReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    web_roots: Option<bool>,
    insecure_skip_verify: bool,
    plain_http: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror_fallback: Option<bool>,
}

impl Document {
    /// The document as TOML text with every secret replaced by `[redacted]` and every certificate
    /// by its SHA-256 fingerprint. Meant for people: it is not a document that could be used.
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
            node_error: self.node_error.as_ref(),
            extra_env: ShownEnv {
                http_proxy: self.extra_env.http_proxy.as_ref(),
                https_proxy: self.extra_env.https_proxy.as_ref(),
                no_proxy: self.extra_env.no_proxy.as_deref(),
            },
            registries: registries
                .map(|(name, registry)| (name.to_string(), ShownRegistry::of(registry)))
                .collect(),
            decryption_keys: ShownKeys::of(&self.decryption_keys),
            resources: self.resources.as_ref().map(ShownResources::of),
        };
        shown.serialize(serializer)
    }
}

impl ShownKeys {
    fn of(keys: &[DecryptionKey]) -> Option<Self> {
        let shown = Self {
            keys: keys.iter().map(DecryptionKey::shown).collect(),
        };
        (!shown.keys.is_empty()).then_some(shown)
    }
}

impl<'a> ShownResources<'a> {
    fn of(resources: &'a Resources) -> Self {
        Self {
            sources: &resources.sources,
            kbs_ca_certs: resources.kbs_ca_certs.as_ref().map(fingerprints),
            kbs_token_file: resources.kbs_token_file.as_deref(),
            kbs_attester: resources.kbs_attester,
            from: resources
                .from
                .iter()
                .map(|(uri, source)| (uri.path(), source))
                .collect(),
        }
    }
}

impl<'a> ShownRegistry<'a> {
    fn of(registry: &'a Registry) -> Self {
        let (mirror, roots) = (registry.mirror.as_ref(), registry.ca_certs.as_ref());
        let shown = Self {
            username: registry.credentials.shown_username(),
            credentials_uri: registry.credentials_uri.as_ref(),
            credentials_optional: registry.credentials_optional.then_some(true),
            ca_certs: registry.ca_certs.as_ref().map(fingerprints),
            web_roots: roots.filter(|roots| roots.is_beside_web()).map(|_| true),
            ca_certs_uri: registry.ca_certs_uri.as_ref(),
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
