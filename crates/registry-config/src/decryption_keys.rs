//! `[decryption-keys]`: what encrypted images are opened with, and which of them.

use std::collections::BTreeMap;
use std::fmt;

use foreign_text::toml::Field;
use zeroize::Zeroizing;

use crate::limits::{
    MAX_DECRYPTION_KEY_BYTES, MAX_DECRYPTION_KEYS, MAX_DECRYPTION_TABLES, MAX_KEY_PASSWORD_BYTES,
};
use crate::problem::{Origin, Place};
use crate::secret::REDACTED;
use crate::section::Section;
use crate::{Effect, RegistryHost, RegistryName, ResourceUri, Rule, standard_base64};

/// The keys of a document: those for every image, and those for the images of some repositories.
#[derive(Clone, Debug, Default)]
pub struct DecryptionKeys {
    /// For every image, in the document's order.
    pub all: Vec<DecryptionKey>,
    /// For the images of a host, or of some of its repositories.
    pub of: BTreeMap<RegistryName, Vec<DecryptionKey>>,
}

impl DecryptionKeys {
    /// The lists of keys for an image, the most specific first, each with the name of its table;
    /// that for every image has none.
    pub fn lists(
        &self,
        host: &RegistryHost,
        repository: &str,
    ) -> impl Iterator<Item = (Option<&RegistryName>, &[DecryptionKey])> {
        let names = RegistryName::repository_candidates(host, repository)
            .chain(RegistryName::literal_candidates(host));
        let of = names.filter_map(|name| self.of.get_key_value(&name));
        let of = of.map(|(name, keys)| (Some(name), keys.as_slice()));
        of.chain([(None, self.all.as_slice())])
    }

    /// All lists, each with the name of its table.
    pub fn tables(&self) -> impl Iterator<Item = (Option<&RegistryName>, &[DecryptionKey])> {
        let of = self.of.iter().map(|(name, keys)| (Some(name), keys.as_slice()));
        [(None, self.all.as_slice())].into_iter().chain(of)
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.tables().all(|(_, keys)| keys.is_empty())
    }
}

/// A private key that layers may be encrypted for. `Debug` shows no key and no password.
///
/// What kind of key it is, and whether it is one at all, is for the reader of keys to find out
/// (`keys::PrivateKey`).
#[derive(Clone)]
pub enum DecryptionKey {
    /// The document holds it.
    Given {
        /// The key in its container; not empty, at most [`MAX_DECRYPTION_KEY_BYTES`].
        key: Zeroizing<Vec<u8>>,
        /// What the container is encrypted with; not empty, at most [`MAX_KEY_PASSWORD_BYTES`].
        password: Option<Zeroizing<Vec<u8>>>,
    },
    /// The guest gets it elsewhere.
    Reference(ResourceUri),
}

impl DecryptionKey {
    /// Reads `base64(key)`, `base64(key):base64(password)` or the URI of a resource, as in the
    /// measured document: the host's may not have those that [name a
    /// plugin](ResourceUri::names_plugin).
    ///
    /// # Errors
    ///
    /// What the item would have to be; it quotes nothing but a resource URI.
    pub fn parse(item: &str) -> Result<Self, Rule> {
        Self::parse_from(Origin::Measured, item)
    }

    fn parse_from(origin: Origin, item: &str) -> Result<Self, Rule> {
        if item.is_empty() {
            return Err(Rule::EmptyDecryptionKey);
        }
        if item.contains("://") {
            let reference = ResourceUri::parse_from(origin, item)?;
            return Ok(Self::Reference(reference));
        }
        let (key, password) = match item.split_once(':') {
            Some((key, password)) => (key, Some(password)),
            None => (item, None),
        };
        let key = standard_base64::decode(key).ok_or(Rule::DecryptionKeyNotBase64)?;
        if key.is_empty() {
            return Err(Rule::EmptyDecryptionKey);
        }
        if key.len() > MAX_DECRYPTION_KEY_BYTES {
            return Err(Rule::DecryptionKeyTooLong);
        }
        let password = password.map(parse_password).transpose()?;
        Ok(Self::Given { key, password })
    }

    /// The key as it may be shown: a reference, else only whether there is a password.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Given { password: None, .. } => REDACTED.to_owned(),
            Self::Given { password: Some(_), .. } => format!("{REDACTED}:{REDACTED}"),
            Self::Reference(reference) => reference.to_string(),
        }
    }
}

impl fmt::Debug for DecryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

fn parse_password(text: &str) -> Result<Zeroizing<Vec<u8>>, Rule> {
    let password = standard_base64::decode(text).ok_or(Rule::DecryptionKeyNotBase64)?;
    if password.is_empty() {
        return Err(Rule::EmptyKeyPassword);
    }
    if password.len() > MAX_KEY_PASSWORD_BYTES {
        return Err(Rule::KeyPasswordTooLong);
    }
    Ok(password)
}

/// Reads the table to its end; what is broken is reported and missing.
pub(crate) fn read(mut section: Section<'_, '_>) -> DecryptionKeys {
    let findings = section.findings;
    let all = read_list(&mut section);
    let (tables, others): (Vec<_>, Vec<_>) = section.rest().partition(Field::is_table);
    section.refuse(others, None);
    if tables.len() > MAX_DECRYPTION_TABLES {
        findings.problem(&tables[0], Rule::TooManyDecryptionTables);
        return DecryptionKeys::default();
    }
    let mut of: BTreeMap<RegistryName, (Place, Vec<DecryptionKey>)> = BTreeMap::new();
    for field in tables {
        let Some(mut section) = Section::of(&field, findings) else { continue };
        let keys = read_list(&mut section);
        section.refuse_rest(None);
        let place = Place::from(&field);
        let Some(name) = findings.kept(&place, RegistryName::parse(field.key)) else { continue };
        if !name.is_literal() {
            findings.problem(&place, Rule::DecryptionKeysOfManyHosts);
        } else if let Some((Place { key, line }, _)) = of.get(&name) {
            findings.problem(&place, Rule::DuplicateName { first: key.clone(), line: *line });
        } else {
            of.insert(name, (place, keys));
        }
    }
    let of = of.into_iter().map(|(name, (_, keys))| (name, keys));
    DecryptionKeys { all, of: of.collect() }
}

/// Takes the keys of one table: a list, or a text in which commas separate them.
fn read_list(section: &mut Section<'_, '_>) -> Vec<DecryptionKey> {
    let findings = section.findings;
    let Some(field) = section.take("keys") else { return Vec::new() };
    let items = match field.text() {
        Ok(text) if text.trim().is_empty() => Vec::new(),
        Ok(text) => {
            let key = |number: usize| format!("{}, item {number}", field.path);
            let place = |number| Place { line: field.line, key: key(number) };
            (1..).map(place).zip(text.split(',').map(str::trim)).collect()
        }
        Err(_) => section.texts(&field),
    };
    if items.len() > MAX_DECRYPTION_KEYS {
        section.problem("keys", Rule::TooManyDecryptionKeys);
        return Vec::new();
    }
    if items.is_empty() {
        section.warn("keys", Effect::NoDecryptionKeys);
    }
    let parse = |(place, text): (Place, &str)| {
        let key = findings.kept(&place, DecryptionKey::parse_from(findings.origin, text))?;
        if findings.origin == Origin::Measured && matches!(key, DecryptionKey::Given { .. }) {
            findings.warning(&place, Effect::Published);
        }
        if matches!(key, DecryptionKey::Reference(_)) && ResourceUri::names_host(text) {
            findings.warning(&place, Effect::HostOfBroker);
        }
        Some(key)
    };
    items.into_iter().filter_map(parse).collect()
}
