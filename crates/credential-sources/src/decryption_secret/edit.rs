//! What becomes of a document's text when keys are added: a part is replaced by texts around them.

use std::borrow::Cow;
use std::ops::Range;

use registry_config::RegistryName;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

/// The table of the keys.
const TABLE: &str = "decryption-keys";

/// Where a list begins, and where it ends.
const OPEN: &str = "keys = [\n";
const CLOSE: &str = "]";

/// One change.
pub(super) struct Edit {
    replaced: Range<usize>,
    before: Cow<'static, str>,
    after: Zeroizing<String>,
}

impl Edit {
    fn new(replaced: Range<usize>, before: impl Into<Cow<'static, str>>, after: &str) -> Self {
        Self { replaced, before: before.into(), after: Zeroizing::new(after.to_owned()) }
    }

    /// Where keys go that are for `name`, or for every image. `None` if the text has not the form
    /// of a document.
    pub(super) fn of(text: &str, name: Option<&RegistryName>) -> Option<Self> {
        let mut root = DeTable::parse(text).ok()?.into_inner();
        let edit = Self::find(text, &mut root, name);
        foreign_text::toml::wipe(&mut root);
        edit
    }

    fn find(text: &str, root: &mut DeTable<'_>, name: Option<&RegistryName>) -> Option<Self> {
        let header = match name {
            None => TABLE.to_owned(),
            Some(name) => format!("{TABLE}.\"{}\"", name.written()),
        };
        let found = root.iter_mut().find(|(key, _)| key.get_ref() == TABLE);
        let Some((key, all)) = found else {
            return Some(Self::append(text, &header));
        };
        let (place, span) = (key.span(), all.span());
        let DeValue::Table(all) = all.get_mut() else {
            return None;
        };
        let Some(name) = name else {
            return match all.get_mut("keys") {
                Some(keys) => Self::into_list(keys.span(), keys.get_mut()),
                None => Self::into_empty(text, place, &span, &header, all.is_empty()),
            };
        };
        let is_of_name = |key: &str| RegistryName::parse(key).is_ok_and(|key| key == *name);
        let mut tables = all.iter_mut();
        let own = tables.find(|(key, _)| key.get_ref() != "keys" && is_of_name(key.get_ref()));
        if let Some((key, own)) = own {
            let (place, span) = (key.span(), own.span());
            let DeValue::Table(own) = own.get_mut() else {
                return None;
            };
            return match own.get_mut("keys") {
                Some(keys) => Self::into_list(keys.span(), keys.get_mut()),
                None => Self::into_empty(text, place, &span, &header, true),
            };
        }
        if !is_inline(text, &span) {
            return Some(Self::append(text, &header));
        }
        let before = format!(" \"{}\" = {{ {OPEN}", name.written());
        let after = if all.is_empty() { "] } " } else { "] }, " };
        Some(Self::new(span.start + 1..span.start + 1, before, after))
    }

    /// As a section at the end.
    fn append(text: &str, header: &str) -> Self {
        let gap = match text {
            "" => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        let before = format!("{gap}[{header}]\n{OPEN}");
        Self::new(text.len()..text.len(), before, "]\n")
    }

    /// Into what stands behind `keys =`: in front of what is there, so that a comma and a comment
    /// at its end stay what they are.
    fn into_list(span: Range<usize>, keys: &mut DeValue<'_>) -> Option<Self> {
        match keys {
            DeValue::Array(_) => Some(Self::new(span.start + 1..span.start + 1, "\n", "")),
            DeValue::String(items) => {
                // Reserved at once: a string that grows leaves copies behind.
                let mut after = Zeroizing::new(String::with_capacity(items.len() * 5 + 8));
                let items = items.split(',').map(str::trim);
                for item in items.filter(|item| !item.is_empty()) {
                    after.push_str("  \"");
                    after.push_str(item);
                    after.push_str("\",\n");
                }
                after.push_str(CLOSE);
                Some(Self { after, ..Self::new(span, "[\n", "") })
            }
            _ => None,
        }
    }

    /// Into a table without a list, whose name is at `place`.
    fn into_empty(
        text: &str,
        place: Range<usize>,
        span: &Range<usize>,
        header: &str,
        is_empty: bool,
    ) -> Option<Self> {
        if is_inline(text, span) {
            let after = if is_empty { "] " } else { "], " };
            let before = format!(" {OPEN}");
            return Some(Self::new(span.start + 1..span.start + 1, before, after));
        }
        let rest = text.get(place.end..)?;
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if rest[blank..].starts_with(']') {
            let at = place.end + blank + 1;
            return Some(Self::new(at..at, format!("\n{OPEN}"), CLOSE));
        }
        // It is there only because of what is in it: a section of that, or a dotted key.
        if text.get(..place.start)?.trim_end_matches([' ', '\t']).ends_with('[') {
            return Some(Self::append(text, header));
        }
        let before = format!("{header}.{OPEN}");
        Some(Self::new(place.start..place.start, before, "]\n"))
    }

    /// The text with `added`. Items consist of characters that a TOML string has as they are.
    pub(super) fn apply(&self, text: &str, added: &[&str]) -> Zeroizing<Vec<u8>> {
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

fn is_inline(text: &str, span: &Range<usize>) -> bool {
    text.get(span.start..).is_some_and(|rest| rest.starts_with('{'))
}
