//! Where the entries of a document stand.

use std::borrow::Cow;
use std::collections::BTreeMap;

use registry_config::RegistryName;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroize;

use crate::choice::DocumentText;

/// The line of each entry.
pub struct Places(BTreeMap<RegistryName, usize>);

impl Places {
    /// The places in a valid document; none in anything else.
    pub fn of(text: &DocumentText) -> Self {
        let mut places = BTreeMap::new();
        let parsed = std::str::from_utf8(text).ok().map(DeTable::parse);
        if let Some(Ok(mut root)) = parsed {
            if let Some(DeValue::Table(registries)) =
                root.get_ref().get("registries").map(|table| table.get_ref())
            {
                for key in registries.keys() {
                    if let Ok(name) = RegistryName::parse(key.get_ref()) {
                        places
                            .insert(name, foreign_text::position::line_of(text, key.span().start));
                    }
                }
            }
            forget(root.get_mut());
        }
        Self(places)
    }

    /// The line of the entry that the document calls `written`, from 1.
    pub fn line(&self, written: &str) -> Option<usize> {
        let name = RegistryName::parse(written).ok()?;
        self.0.get(&name).copied()
    }
}

/// Zeroes the copies that the parser made of values with escape sequences. It bounds the nesting,
/// and so this recursion.
fn forget(table: &mut DeTable<'_>) {
    for (_, value) in table.iter_mut() {
        match value.get_mut() {
            DeValue::String(Cow::Owned(text)) => text.zeroize(),
            DeValue::Table(table) => forget(table),
            // A valid document has no array.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn entries_are_found_in_every_shape() {
        for (text, line) in [
            ("\n[registries.\"Reg.corp\"]\n", Some(2)),
            ("\n\nregistries.\"reg.corp.\".plain-http = true", Some(3)),
            ("registries = {\n \"reg.corp\" = {} }", Some(2)),
            ("[registries]\n\n\"\\u0072eg.corp\" = {}", Some(3)),
            ("[registries.\"reg.corp:5000\"]", None),
            ("registries = 7", None),
            ("[[registries]]", None),
            ("not TOML", None),
        ] {
            let text = DocumentText::from(Zeroizing::new(text.as_bytes().to_vec()));
            let places = Places::of(&text);
            assert_eq!(places.line("reg.corp"), line, "{:?}", str::from_utf8(&text));
            assert_eq!(places.line("not a name"), None);
        }
    }
}
