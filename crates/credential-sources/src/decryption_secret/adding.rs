//! Keys put into a document, with everything else left as it is, comments included.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use puller_config::{
    Checked, DecryptionKey, Document, MAX_DECRYPTION_KEYS, SecretReference, Warning,
};
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::Key;
use crate::merge::{self, MergeError};
use crate::{Finding, Loss};

/// A document with keys in it.
#[derive(Clone)]
#[non_exhaustive]
pub struct WithKeys {
    /// Its text, the same bytes as before where nothing was added.
    pub text: Zeroizing<Vec<u8>>,
    /// The text, parsed.
    pub document: Document,
    /// What its author may not have meant, as of any document.
    pub warnings: Vec<Warning>,
    /// What was not added.
    pub findings: Vec<Finding>,
}

impl fmt::Debug for WithKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithKeys")
            .field("document", &self.document)
            .field("findings", &self.findings)
            .finish_non_exhaustive()
    }
}

/// Adds keys to a document. Those that it has already are not added again, and no more than fit.
///
/// # Errors
///
/// As those of [`merge`](crate::merge()).
pub fn put_below(document: &[u8], keys: &[Key]) -> Result<WithKeys, MergeError> {
    let checked = merge::read(document, keys.is_empty())?;
    let mut findings = Vec::new();
    let mut added: Vec<&str> = Vec::new();
    let own = &checked.document.decryption_keys.all;
    for key in keys {
        let item = key.item.expose();
        let parsed = DecryptionKey::parse(item).map_err(|_| MergeError::Edit)?;
        let mut find =
            |loss, text: String| findings.push(Finding::new(&key.source, "", loss, text));
        if own.iter().any(|own| is_same(own, &parsed)) {
            find(Loss::Note, "the document has it already".to_owned());
        } else if own.len() + added.len() == MAX_DECRYPTION_KEYS {
            let text =
                format!("left out: a document has at most {MAX_DECRYPTION_KEYS} decryption keys");
            find(Loss::Lost, text);
        } else {
            added.push(item);
        }
    }
    if added.is_empty() {
        return Ok(WithKeys::new(document.to_vec().into(), checked, findings));
    }
    let text = std::str::from_utf8(document).map_err(|_| MergeError::Edit)?;
    let edit = Edit::of(text, own.is_empty()).ok_or(MergeError::Edit)?;
    let text = edit.apply(text, &added);
    let checked = Document::parse(&text).map_err(MergeError::Result)?;
    Ok(WithKeys::new(text, checked, findings))
}

impl WithKeys {
    fn new(text: Zeroizing<Vec<u8>>, checked: Checked, findings: Vec<Finding>) -> Self {
        Self {
            text,
            document: checked.document,
            warnings: checked.warnings,
            findings,
        }
    }
}

fn is_same(one: &DecryptionKey, other: &DecryptionKey) -> bool {
    use DecryptionKey::{Given, Reference};
    use SecretReference::{Resource, Sealed};
    match (one, other) {
        (
            Given { key, password },
            Given {
                key: k,
                password: p,
            },
        ) => key == k && password == p,
        (Reference(Resource(one)), Reference(Resource(other))) => one == other,
        (Reference(Sealed(one)), Reference(Sealed(other))) => one.expose() == other.expose(),
        _ => false,
    }
}

/// What becomes of a document: a part is replaced by texts around the new items.
struct Edit {
    replaced: Range<usize>,
    before: Cow<'static, str>,
    after: Zeroizing<String>,
}

impl Edit {
    fn new(replaced: Range<usize>, before: impl Into<Cow<'static, str>>, after: &str) -> Self {
        Self {
            replaced,
            before: before.into(),
            after: Zeroizing::new(after.to_owned()),
        }
    }

    /// Where the items go. `None` if the text has not the form of a document.
    fn of(text: &str, has_none: bool) -> Option<Self> {
        let mut root = DeTable::parse(text).ok()?.into_inner();
        let edit = Self::find(text, &mut root, has_none);
        foreign_text::toml::wipe(&mut root);
        edit
    }

    fn find(text: &str, root: &mut DeTable<'_>, has_none: bool) -> Option<Self> {
        let found = root
            .iter_mut()
            .find(|(key, _)| key.get_ref() == "decryption-keys");
        let Some((name, table)) = found else {
            let gap = match text {
                "" => "",
                text if text.ends_with('\n') => "\n",
                _ => "\n\n",
            };
            let before = format!("{gap}[decryption-keys]\nkeys = [\n");
            return Some(Self::new(text.len()..text.len(), before, "]\n"));
        };
        let (name, span) = (name.span(), table.span());
        let DeValue::Table(table) = table.get_mut() else {
            return None;
        };
        let Some(keys) = table.get_mut("keys") else {
            return Self::into_empty(text, name, span);
        };
        let span = keys.span();
        match keys.get_mut() {
            // In front of what is there, so that a comma and a comment at its end stay what they
            // are.
            DeValue::Array(_) => Some(Self::new(span.start + 1..span.start + 1, "\n", "")),
            DeValue::String(_) if has_none => None,
            DeValue::String(items) => {
                // Reserved at once: a string that grows leaves copies behind.
                let mut after = Zeroizing::new(String::with_capacity(items.len() * 5 + 8));
                for item in items.split(',').map(str::trim) {
                    after.push_str("  \"");
                    after.push_str(item);
                    after.push_str("\",\n");
                }
                after.push(']');
                Some(Self {
                    after,
                    ..Self::new(span, "[\n", "")
                })
            }
            _ => None,
        }
    }

    /// Into a table without a key, which may be written in two ways.
    fn into_empty(text: &str, name: Range<usize>, table: Range<usize>) -> Option<Self> {
        let (at, before, after) = if text.get(table.start..)?.starts_with('{') {
            (table.start + 1, " keys = [\n", "] ")
        } else {
            let rest = text.get(name.end..)?;
            let closing = rest.find(']')?;
            (name.end + closing + 1, "\nkeys = [\n", "]")
        };
        Some(Self::new(at..at, before, after))
    }

    /// Items consist of characters that a TOML string has as they are.
    fn apply(&self, text: &str, added: &[&str]) -> Zeroizing<Vec<u8>> {
        let items = added.iter().flat_map(|item| ["  \"", *item, "\",\n"]);
        let before = [&text[..self.replaced.start], &self.before];
        let after = [self.after.as_str(), &text[self.replaced.end..]];
        let parts = before.into_iter().chain(items).chain(after);
        // Reserved at once: a vector that grows leaves copies behind.
        let mut result = Zeroizing::new(Vec::with_capacity(parts.clone().map(str::len).sum()));
        parts.for_each(|part| result.extend_from_slice(part.as_bytes()));
        result
    }
}
