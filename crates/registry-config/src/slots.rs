//! The registry config as keys with their values, each listed once: what a person is shown, what
//! the event log records and what is written.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use serde::{Serialize, Serializer};
use zeroize::Zeroizing;

use crate::record::fingerprint;
use crate::secret::REDACTED;
use crate::{
    Credentials, DecryptionKey, DecryptionKeys, Document, ExtraEnv, ImagePolicy, Mirror, Pins,
    PolicySource, Registry, RegistryName, Resources, Roots,
};

/// The use of a list of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Shown to somebody who looks for a mistake, with user names, and which keys have a password.
    Show,
    /// Recorded where anyone may try out values: nothing depends on one that is left out.
    Record,
    /// Written so that it is read back.
    Write,
}

/// The value of a key.
pub(crate) enum Value<'a> {
    Flag(bool),
    Text(Cow<'a, str>),
    /// Serialised as `[redacted]`.
    Secret(&'a str),
    /// A secret in another encoding than the config keeps it in.
    Encoded(Zeroizing<String>),
    /// Serialised as fingerprints, written as PEM.
    Certificates(&'a [CertificateDer<'static>]),
    List(Vec<Value<'a>>),
    /// `[KEY]`, and in a list a table on one line.
    Table(Table<'a>),
    /// `[[KEY]]`.
    Tables(Vec<Table<'a>>),
}

/// Keys with their values, in the order in which they are shown.
#[derive(Default)]
pub(crate) struct Table<'a>(pub(crate) Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Table<'a> {
    fn put(&mut self, key: &'a str, value: impl Into<Option<Value<'a>>>) {
        self.0.extend(value.into().map(|value| (Cow::Borrowed(key), value)));
    }
}

/// The text of a value that is no secret.
fn text<'a>(value: impl Into<Cow<'a, str>>) -> Value<'a> {
    Value::Text(value.into())
}

fn shown<'a>(value: &impl ToString) -> Value<'a> {
    text(value.to_string())
}

fn set<'a>(flag: bool) -> Option<Value<'a>> {
    flag.then_some(Value::Flag(true))
}

fn texts(values: &[String]) -> Value<'_> {
    Value::List(values.iter().map(|value| text(value.as_str())).collect())
}

/// The value, unless its list is empty.
fn filled<'a, T>(value: Value<'a>, list: &[T]) -> Option<Value<'a>> {
    (!list.is_empty()).then_some(value)
}

/// Lists all keys of a config. The names of all fields stand here, so that none is forgotten.
pub(crate) fn of(config: &Document, purpose: Purpose) -> Table<'_> {
    let is_written = purpose == Purpose::Write;
    let Document {
        extra_env,
        has_extra_env,
        registries,
        decryption_keys,
        resources,
        pins,
        image_policy,
        node_error,
    } = config;
    let mut table = Table::default();
    table.put(
        "node-error",
        node_error.as_ref().map(|error| if is_written { text(error.raw()) } else { shown(error) }),
    );
    table.put("only-pins", set(pins.is_only));
    table.put("pins", of_pins(pins));
    table.put("image-policy", image_policy.as_ref().map(of_image_policy));
    if *has_extra_env || !is_written {
        table.put("extra-env", Value::Table(of_extra_env(extra_env, purpose)));
    }
    let mut entries: Vec<_> = registries.iter().collect();
    entries.sort_by_cached_key(|(name, _)| name.to_string());
    let entries = entries.into_iter().map(|(name, registry)| {
        let of = Value::Table(of_registry(name, registry, purpose));
        (Cow::Owned(if is_written { name.written() } else { name.to_string() }), of)
    });
    let entries = Table(entries.collect());
    if !entries.0.is_empty() || !is_written {
        table.put("registries", Value::Table(entries));
    }
    table.put("decryption-keys", of_decryption_keys(decryption_keys, purpose));
    table.put("resources", resources.as_ref().map(of_resources));
    table
}

fn of_extra_env(
    ExtraEnv { http_proxy, https_proxy, no_proxy }: &ExtraEnv,
    to: Purpose,
) -> Table<'_> {
    let mut table = Table::default();
    for (key, proxy) in [("HTTP_PROXY", http_proxy), ("HTTPS_PROXY", https_proxy)] {
        table.put(
            key,
            proxy.as_ref().map(|proxy| match to {
                Purpose::Write => Value::Secret(proxy.url()),
                Purpose::Show | Purpose::Record => shown(proxy),
            }),
        );
    }
    table.put("NO_PROXY", no_proxy.as_deref().map(text));
    table
}

fn of_pins(pins: &Pins) -> Option<Value<'_>> {
    let mut all: Vec<_> = pins.all.iter().collect();
    all.sort_by_key(|pin| &pin.name);
    let all = all.into_iter().map(|pin| (Cow::Borrowed(pin.name.as_str()), texts(&pin.digests)));
    let all = Table(all.collect());
    (!all.0.is_empty()).then_some(Value::Table(all))
}

/// Lists the section as it was written: a policy holds public keys and no secret.
fn of_image_policy(policy: &ImagePolicy) -> Value<'_> {
    let mut table = Table::default();
    match &policy.source {
        PolicySource::Text(policy) => table.put("text", text(policy.as_str())),
        PolicySource::File(name) => table.put("file", text(name.as_str())),
        PolicySource::Uri(uri) => table.put("uri", shown(uri)),
    }
    table.put("allow-tags", filled(texts(&policy.allow_tags), &policy.allow_tags));
    table.put("refuse", filled(texts(&policy.refuse), &policy.refuse));
    Value::Table(table)
}

fn of_resources(Resources { source, unwrap }: &Resources) -> Value<'_> {
    let mut table = Table::default();
    table.put("source", source.as_ref().map(shown));
    table.put("unwrap", set(*unwrap));
    Value::Table(table)
}

fn of_decryption_keys(
    DecryptionKeys { all, of }: &DecryptionKeys,
    purpose: Purpose,
) -> Option<Value<'_>> {
    let mut table = Table::default();
    table.put("keys", filled(of_keys(all, purpose), all));
    for (name, keys) in of {
        let name = if purpose == Purpose::Write { name.written() } else { name.to_string() };
        let keys = Table(vec![(Cow::Borrowed("keys"), of_keys(keys, purpose))]);
        table.0.push((Cow::Owned(name), Value::Table(keys)));
    }
    (!table.0.is_empty()).then_some(Value::Table(table))
}

fn of_keys(keys: &[DecryptionKey], purpose: Purpose) -> Value<'_> {
    Value::List(keys.iter().map(|key| of_decryption_key(key, purpose)).collect())
}

fn of_decryption_key(key: &DecryptionKey, purpose: Purpose) -> Value<'_> {
    match (key, purpose) {
        (DecryptionKey::Reference(uri), _) => shown(uri),
        (_, Purpose::Show) => text(key.shown()),
        (_, Purpose::Record) => text(REDACTED),
        (DecryptionKey::Given { key, password }, Purpose::Write) => {
            let password = password.as_deref().map(|password| encoded(password));
            let [separator, password] = match &password {
                Some(password) => [":", password.as_str()],
                None => ["", ""],
            };
            let key = encoded(key);
            let mut text = Zeroizing::new(String::with_capacity(key.len() + 1 + password.len()));
            text.extend([key.as_str(), separator, password]);
            Value::Encoded(text)
        }
    }
}

/// Base64 in a buffer that never moves, so that no copy of a secret is left behind.
fn encoded(bytes: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(STANDARD.encode(bytes))
}

fn of_registry<'a>(name: &RegistryName, registry: &'a Registry, purpose: Purpose) -> Table<'a> {
    let Registry {
        credentials,
        also,
        credentials_uri,
        credentials_optional,
        wants_anonymous,
        ca_certs,
        ca_certs_uri,
        client,
        insecure_skip_verify,
        plain_http,
        addresses,
        mirrors,
        blocked,
        mirror_fallback,
    } = registry;
    // An entry for some repositories of a host does not say how that is reached. A person and a
    // verifier read of the others that nothing is weakened.
    let is_told = name.repositories().is_none() && purpose != Purpose::Write;
    let flag = |value: &bool| (*value || is_told).then_some(Value::Flag(*value));
    let mut table = Table::default();
    put_credentials(credentials, purpose, &mut table);
    table.put("credentials-uri", credentials_uri.as_ref().map(shown));
    table.put("credentials-optional", set(*credentials_optional));
    table.put("anonymous", set(*wants_anonymous));
    let roots = ca_certs.as_ref();
    let of_roots = |roots: &'a Roots| match &roots.comment {
        Some(comment) if purpose == Purpose::Write => Value::Secret(comment.expose()),
        _ => Value::Certificates(roots.certificates()),
    };
    table.put("ca-certs", roots.map(of_roots));
    table.put("ca-certs-uri", ca_certs_uri.as_ref().map(shown));
    table.put("web-roots", set(roots.is_some_and(|roots| roots.is_beside_web())));
    table.put("client-cert", client.as_ref().map(|own| Value::Certificates(own.chain())));
    table.put("client-key", client.as_ref().map(|own| Value::Secret(own.key_pem().expose())));
    table.put("insecure-skip-verify", flag(insecure_skip_verify));
    table.put("plain-http", flag(plain_http));
    let shown_addresses = addresses.iter().map(shown).collect();
    table.put("addresses", filled(Value::List(shown_addresses), addresses));
    match mirrors.as_slice() {
        [] if blocked.is_empty() => {}
        [only] if blocked.is_empty() && !only.is_listed && is_plain(only) => {
            table.put("mirror", of_url(only, purpose));
        }
        _ => {
            let mirrors = mirrors.iter().map(|mirror| of_mirror(mirror, purpose));
            let blocked = blocked.iter().map(|prefix| of_blocked(prefix));
            table.put("mirrors", Value::List(mirrors.chain(blocked).collect()));
        }
    }
    let has_fallback = !mirrors.is_empty() && (*mirror_fallback || purpose != Purpose::Write);
    table.put("mirror-fallback", has_fallback.then_some(Value::Flag(*mirror_fallback)));
    // Last: to TOML a list of tables ends the table that it is in.
    let also: Vec<_> = also
        .iter()
        .map(|credentials| {
            let mut table = Table::default();
            put_credentials(credentials, purpose, &mut table);
            table
        })
        .collect();
    table.put("also", (!also.is_empty()).then_some(Value::Tables(also)));
    table
}

fn put_credentials<'a>(credentials: &'a Credentials, purpose: Purpose, table: &mut Table<'a>) {
    let username = match purpose {
        Purpose::Show => credentials.shown_username(),
        Purpose::Record => None,
        Purpose::Write => {
            if let Some(auth) = credentials.auth() {
                return table.put("auth", Value::Encoded(auth));
            }
            match credentials {
                Credentials::Basic { username, .. } => Some(username.as_str()),
                Credentials::IdentityToken { username, .. } => username.as_deref(),
                Credentials::Anonymous | Credentials::RegistryToken(_) => None,
            }
        }
    };
    table.put("username", username.map(text));
    let (key, secret) = match credentials {
        Credentials::Anonymous => return,
        Credentials::Basic { password, .. } => ("password", password),
        Credentials::IdentityToken { token, .. } => ("identitytoken", token),
        Credentials::RegistryToken(token) => ("registrytoken", token),
    };
    table.put(key, Value::Secret(secret.expose()));
}

/// The address of a mirror, written without the slash that a URL without a path has.
fn of_url(mirror: &Mirror, purpose: Purpose) -> Value<'_> {
    let url = mirror.url();
    let is_short = purpose == Purpose::Write && url.path() == "/";
    text(url.as_str().strip_suffix('/').filter(|_| is_short).unwrap_or(url.as_str()))
}

/// Whether its address says all.
fn is_plain(mirror: &Mirror) -> bool {
    mirror.prefix().is_none() && mirror.name().is_none() && mirror.fallback().is_none()
}

fn of_mirror(mirror: &Mirror, purpose: Purpose) -> Value<'_> {
    if purpose == Purpose::Write && is_plain(mirror) {
        return of_url(mirror, purpose);
    }
    let mut table = Table::default();
    table.put("url", of_url(mirror, purpose));
    table.put("prefix", mirror.prefix().map(text));
    table.put("name", mirror.name().map(text));
    table.put("fallback", mirror.fallback().map(Value::Flag));
    Value::Table(table)
}

fn of_blocked(prefix: &str) -> Value<'_> {
    let mut table = Table::default();
    table.put("prefix", text(prefix));
    table.put("fallback", Value::Flag(false));
    Value::Table(table)
}

/// Serialises what anyone may see: secrets replaced, certificates as `openssl x509 -fingerprint
/// -sha256` computes their fingerprints.
impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Secret(_) | Self::Encoded(_) => serializer.serialize_str(REDACTED),
            Self::Certificates(all) => {
                serializer.collect_seq(all.iter().map(|der| fingerprint(der)))
            }
            Self::List(values) => serializer.collect_seq(values),
            Self::Table(table) => table.serialize(serializer),
            Self::Tables(tables) => serializer.collect_seq(tables),
        }
    }
}

impl Serialize for Table<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}
