//! Keys put into a document.

use std::collections::BTreeMap;

use registry_config::{
    DecryptionKey, Document, MAX_DECRYPTION_KEYS, MAX_DECRYPTION_TABLES, RegistryName,
};

use super::Key;
use crate::combine::Combined;
use crate::merge::{self, MergeError};
use crate::{Finding, Loss};

/// Adds keys to a document, each to the tables of the images that it is for. Those that a table has
/// already are not added again, and no more than fit.
///
/// # Errors
///
/// As those of [`merge`](crate::merge()).
pub fn put_below(document: &[u8], keys: &[Key]) -> Result<Combined, MergeError> {
    let checked = merge::read(document, keys.is_empty())?;
    let mut findings = Vec::new();
    let added = wanted(&checked.document, keys, &mut findings)?;
    if added.is_empty() {
        return Ok(Combined::unchanged(document, checked, findings));
    }
    let mut config = checked.document;
    for (name, keys) in added {
        let own = &mut config.decryption_keys;
        let list = match name {
            None => &mut own.all,
            Some(name) => own.of.entry(name.clone()).or_default(),
        };
        // In front of the document's own, which are tried after them.
        list.splice(..0, keys);
    }
    Combined::written(&config, findings)
}

/// What is added to which table; that for every image has no name.
type Added<'k> = BTreeMap<Option<&'k RegistryName>, Vec<DecryptionKey>>;

/// The keys that the document has not and has room for.
fn wanted<'k>(
    document: &Document,
    keys: &'k [Key],
    findings: &mut Vec<Finding>,
) -> Result<Added<'k>, MergeError> {
    let own = &document.decryption_keys;
    let mut added = Added::new();
    for key in keys {
        let item = key.item.expose();
        let parsed = DecryptionKey::parse(item).map_err(MergeError::Unwritten)?;
        let mut find =
            |loss, text: String| findings.push(Finding::new(&key.source, "", loss, text));
        let names = key.images.iter().map(Some);
        let all = key.images.is_empty().then_some(None);
        for name in names.chain(all) {
            let of = match name {
                None => Some(&own.all),
                Some(name) => own.of.get(name),
            };
            let there = of.map_or(&[][..], Vec::as_slice);
            let more = added.get(&name).map_or(0, Vec::len);
            let tables = added.keys().flatten().filter(|name| !own.of.contains_key(name));
            let tables = own.of.len() + tables.count();
            if there.iter().any(|own| is_same(own, &parsed)) {
                find(Loss::Note, "the document has it already".to_owned());
            } else if there.len() + more == MAX_DECRYPTION_KEYS {
                let text = format!(
                    "left out: a document has at most {MAX_DECRYPTION_KEYS} decryption keys"
                );
                find(Loss::Lost, text);
            } else if name.is_some() && of.is_none() && more == 0 && tables == MAX_DECRYPTION_TABLES
            {
                let text = format!(
                    "left out: a document has at most {MAX_DECRYPTION_TABLES} tables of \
                    decryption keys"
                );
                find(Loss::Lost, text);
            } else {
                added.entry(name).or_default().push(parsed.clone());
            }
        }
    }
    Ok(added)
}

fn is_same(one: &DecryptionKey, other: &DecryptionKey) -> bool {
    use DecryptionKey::{Given, Reference};
    match (one, other) {
        (Given { key, password }, Given { key: k, password: p }) => key == k && password == p,
        (Reference(one), Reference(other)) => one == other,
        _ => false,
    }
}
