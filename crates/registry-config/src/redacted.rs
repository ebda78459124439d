//! A document as it may be shown to anyone: secrets replaced, certificates as fingerprints, names
//! in their normal form.

use std::collections::BTreeMap;
use std::ops::Not;

use rustls_pki_types::CertificateDer;
use serde::{Serialize, Serializer};

use crate::record::fingerprint;
use crate::secret::REDACTED;
use crate::{
    ClientIdentity, Credentials, DecryptionKey, DecryptionKeys, Document, ImagePolicy, Mirror,
    NodeError, Pins, ProxyUrl, Registry, RegistryName, ResourceSource, ResourceUri, Resources,
    Rewrite, Secret,
};

/// Who is shown a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Somebody who looks for a mistake: user names, and which keys have a password, are shown.
    Person,
    /// Who may try out values: nothing depends on one that is left out.
    EventLog,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ShownDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_error: Option<&'a NodeError>,
    #[serde(skip_serializing_if = "Not::not")]
    only_pins: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pins: Option<&'a Pins>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_policy: Option<&'a ImagePolicy>,
    extra_env: ShownEnv<'a>,
    registries: BTreeMap<String, ShownRegistry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decryption_keys: Option<ShownKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ShownResources<'a>>,
}

#[derive(Serialize)]
struct ShownKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Vec<String>>,
    #[serde(flatten)]
    of: BTreeMap<String, ShownKeys>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownResources<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a ResourceSource>,
    #[serde(skip_serializing_if = "Not::not")]
    unwrap: bool,
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

#[derive(Serialize)]
struct ShownMirror<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rewrite: Vec<ShownRewrite<'a>>,
}

#[derive(Serialize)]
struct ShownRewrite<'a> {
    from: &'a str,
    to: &'a str,
}

/// Who the puller is, without what it shows to registries.
#[derive(Default, Serialize)]
struct ShownAccount<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<&'a Secret>,
    #[serde(rename = "identitytoken", skip_serializing_if = "Option::is_none")]
    identity_token: Option<&'a Secret>,
    #[serde(rename = "registrytoken", skip_serializing_if = "Option::is_none")]
    registry_token: Option<&'a Secret>,
}

/// The keys of the document, less `auth`, which is shown as the user name and password that it
/// stands for.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownRegistry<'a> {
    #[serde(flatten)]
    account: ShownAccount<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_uri: Option<&'a ResourceUri>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_optional: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anonymous: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_certs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_certs_uri: Option<&'a ResourceUri>,
    #[serde(skip_serializing_if = "Option::is_none")]
    web_roots: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_cert: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_key: Option<&'a Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    insecure_skip_verify: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_http: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<&'a str>,
    /// With the names that each is asked by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mirrors: Vec<ShownMirror<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror_fallback: Option<bool>,
    /// Last: to TOML a list of tables ends the table that it is in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<ShownAccount<'a>>,
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
        ShownDocument::of(self, Reader::Person).serialize(serializer)
    }
}

impl<'a> ShownDocument<'a> {
    pub(crate) fn of(document: &'a Document, reader: Reader) -> Self {
        let registries = document.registries.iter();
        let shown = |(name, entry)| {
            let shown = ShownRegistry::of(name, entry, reader);
            (name.to_string(), shown)
        };
        Self {
            node_error: document.node_error.as_ref(),
            only_pins: document.pins.is_only,
            pins: Some(&document.pins).filter(|pins| !pins.all.is_empty()),
            image_policy: document.image_policy.as_ref(),
            extra_env: ShownEnv {
                http_proxy: document.extra_env.http_proxy.as_ref(),
                https_proxy: document.extra_env.https_proxy.as_ref(),
                no_proxy: document.extra_env.no_proxy.as_deref(),
            },
            registries: registries.map(shown).collect(),
            decryption_keys: ShownKeys::of(&document.decryption_keys, reader),
            resources: document.resources.as_ref().map(ShownResources::of),
        }
    }
}

impl ShownKeys {
    fn of(keys: &DecryptionKeys, reader: Reader) -> Option<Self> {
        let shown = |key: &DecryptionKey| match (key, reader) {
            (DecryptionKey::Given { .. }, Reader::EventLog) => REDACTED.to_owned(),
            (key, _) => key.shown(),
        };
        let list = |keys: &[DecryptionKey]| keys.iter().map(shown).collect::<Vec<_>>();
        let of = keys.of.iter().map(|(name, keys)| {
            let keys = Some(list(keys));
            let of = BTreeMap::new();
            (name.to_string(), Self { keys, of })
        });
        let shown =
            Self { keys: Some(list(&keys.all)).filter(|keys| !keys.is_empty()), of: of.collect() };
        (shown.keys.is_some() || !shown.of.is_empty()).then_some(shown)
    }
}

impl<'a> ShownResources<'a> {
    fn of(resources: &'a Resources) -> Self {
        Self { source: resources.source.as_ref(), unwrap: resources.unwrap }
    }
}

impl<'a> ShownRegistry<'a> {
    fn of(name: &RegistryName, registry: &'a Registry, reader: Reader) -> Self {
        // What is said of the way to a host is not in an entry for some of its repositories.
        let is_host = name.repositories().is_none();
        let (roots, client) = (registry.ca_certs.as_ref(), registry.client.as_ref());
        let has_mirrors = !registry.mirrors.is_empty();
        // The short form has no names.
        let is_short = |mirror: &&Mirror| !mirror.is_listed && mirror.rewrites().is_empty();
        let short = registry.mirrors.first().filter(is_short);
        let listed = registry.mirrors.iter().filter(|_| short.is_none());
        let also = registry.also.iter();
        Self {
            account: ShownAccount::of(&registry.credentials, reader),
            also: also.map(|account| ShownAccount::of(account, reader)).collect(),
            credentials_uri: registry.credentials_uri.as_ref(),
            credentials_optional: registry.credentials_optional.then_some(true),
            anonymous: registry.wants_anonymous.then_some(true),
            ca_certs: roots.map(|roots| fingerprints(roots.certificates())),
            web_roots: roots.filter(|roots| roots.is_beside_web()).map(|_| true),
            ca_certs_uri: registry.ca_certs_uri.as_ref(),
            client_cert: client.map(|client| fingerprints(client.chain())),
            client_key: client.map(ClientIdentity::key_pem),
            insecure_skip_verify: is_host.then_some(registry.insecure_skip_verify),
            plain_http: is_host.then_some(registry.plain_http),
            mirror: short.map(|mirror| mirror.url().as_str()),
            mirrors: listed.map(ShownMirror::of).collect(),
            mirror_fallback: has_mirrors.then_some(registry.mirror_fallback),
        }
    }
}

impl<'a> ShownMirror<'a> {
    fn of(mirror: &'a Mirror) -> Self {
        let rewrites = mirror.rewrites().iter();
        let shown = |rule: &'a Rewrite| ShownRewrite { from: rule.from(), to: rule.to() };
        Self {
            url: mirror.url().as_str(),
            prefix: mirror.prefix.as_deref(),
            rewrite: rewrites.map(shown).collect(),
        }
    }
}

impl<'a> ShownAccount<'a> {
    fn of(credentials: &'a Credentials, reader: Reader) -> Self {
        let username = credentials.shown_username();
        let shown =
            Self { username: username.filter(|_| reader == Reader::Person), ..Self::default() };
        match credentials {
            Credentials::Anonymous => shown,
            Credentials::Basic { password, .. } => Self { password: Some(password), ..shown },
            Credentials::RegistryToken(token) => Self { registry_token: Some(token), ..shown },
            Credentials::IdentityToken { token, .. } => {
                Self { identity_token: Some(token), ..shown }
            }
        }
    }
}

/// The fingerprints of certificates, as `openssl x509 -fingerprint -sha256` computes them.
fn fingerprints(certificates: &[CertificateDer<'_>]) -> Vec<String> {
    certificates.iter().map(|der| fingerprint(der)).collect()
}
