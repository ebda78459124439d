//! The YAML of the file, as types that know which keys they did not understand.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use zeroize::Zeroizing;

use super::MAX_REGISTRIES_YAML_BYTES;

/// How many registries, and how many keys that are not known in one table, are looked at.
const MAX_KEYS: usize = 1024;

/// The whole file.
#[derive(Default)]
pub(super) struct File {
    pub(super) mirrors: BTreeMap<String, Mirror>,
    pub(super) configs: BTreeMap<String, Config>,
    pub(super) unknown: Vec<String>,
}

/// An entry of `mirrors`.
#[derive(Default)]
pub(super) struct Mirror {
    pub(super) endpoints: Vec<String>,
    pub(super) renames: bool,
    pub(super) unknown: Vec<String>,
}

/// An entry of `configs`.
#[derive(Default)]
pub(super) struct Config {
    pub(super) auth: Option<Auth>,
    pub(super) tls: Option<Tls>,
    pub(super) unknown: Vec<String>,
}

/// Its credentials; what is absent is empty.
#[derive(Default)]
pub(super) struct Auth {
    pub(super) username: Zeroizing<String>,
    pub(super) password: Zeroizing<String>,
    pub(super) auth: Zeroizing<String>,
    pub(super) identity_token: Zeroizing<String>,
    pub(super) unknown: Vec<String>,
}

/// Its TLS settings; what is absent is empty.
#[derive(Default)]
pub(super) struct Tls {
    pub(super) ca_file: String,
    pub(super) cert_file: String,
    pub(super) key_file: String,
    pub(super) insecure_skip_verify: bool,
    pub(super) unknown: Vec<String>,
}

/// Parses a file.
///
/// # Errors
///
/// What is wrong with it, and where; never a part of it.
pub(super) fn parse(bytes: &[u8]) -> Result<File, String> {
    if bytes.len() > MAX_REGISTRIES_YAML_BYTES {
        return Err(format!(
            "the file has more than {MAX_REGISTRIES_YAML_BYTES} bytes"
        ));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 16,
            max_documents: 1,
            max_nodes: 64 << 10,
            max_total_scalar_bytes: 2 * MAX_REGISTRIES_YAML_BYTES,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    // The parser's own message may quote the file.
    let file: Result<Option<File>, _> = serde_saphyr::from_slice_with_options(bytes, options);
    file.map(Option::unwrap_or_default).map_err(|error| {
        let place = error.location().map_or(String::new(), |location| {
            format!(" at line {}", location.line())
        });
        format!(
            "not YAML of the form of registries.yaml{place}: a syntax error, a key twice, a \
        value of another type, or more than is read"
        )
    })
}

/// A mapping whose keys are read one by one.
trait Keys: Default {
    /// Reads the value of a key; `false` if the key is not known, and its value still to be
    /// skipped.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;

    /// Where keys that are not known are listed.
    fn unknown(&mut self) -> &mut Vec<String>;
}

impl Keys for File {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "mirrors" => self.mirrors = table(map)?,
            "configs" => self.configs = table(map)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

impl Keys for Mirror {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "endpoint" => self.endpoints = optional(map)?,
            "rewrite" => {
                self.renames = !optional::<BTreeMap<String, IgnoredAny>, A>(map)?.is_empty()
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

impl Keys for Config {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "auth" => self.auth = map.next_value()?,
            "tls" => self.tls = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

impl Keys for Auth {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        let field = match key {
            "username" => &mut self.username,
            "password" => &mut self.password,
            "auth" => &mut self.auth,
            "identity_token" => &mut self.identity_token,
            _ => return Ok(false),
        };
        *field = Zeroizing::new(optional(map)?);
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

impl Keys for Tls {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "ca_file" => self.ca_file = optional(map)?,
            "cert_file" => self.cert_file = optional(map)?,
            "key_file" => self.key_file = optional(map)?,
            "insecure_skip_verify" => self.insecure_skip_verify = optional(map)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

/// A value that may be null, as in a file whose author has not filled it in yet.
fn optional<'de, T: Default + Deserialize<'de>, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<T, A::Error> {
    Ok(map.next_value::<Option<T>>()?.unwrap_or_default())
}

/// A table of tables, each of which may be null.
fn table<'de, T: Default + Deserialize<'de>, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<BTreeMap<String, T>, A::Error> {
    let table: BTreeMap<String, Option<T>> = optional(map)?;
    if table.len() > MAX_KEYS {
        return Err(A::Error::custom("too many registries"));
    }
    let filled = |(name, value): (String, Option<T>)| (name, value.unwrap_or_default());
    Ok(table.into_iter().map(filled).collect())
}

struct KeysVisitor<T>(PhantomData<T>);

impl<'de, T: Keys> Visitor<'de> for KeysVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut value = T::default();
        while let Some(key) = map.next_key::<String>()? {
            if !value.read(&key, &mut map)? {
                map.next_value::<IgnoredAny>()?;
                if value.unknown().len() < MAX_KEYS {
                    value.unknown().push(key);
                }
            }
        }
        Ok(value)
    }
}

macro_rules! deserialize_by_keys {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(KeysVisitor(PhantomData))
            }
        }
    )*};
}

deserialize_by_keys!(File, Mirror, Config, Auth, Tls);
