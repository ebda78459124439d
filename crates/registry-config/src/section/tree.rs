//! The parsed text of a document.

use std::borrow::Cow;

use toml::de::{DeTable, DeValue};
use zeroize::Zeroize;

/// The parsed text, whose strings are zeroed when it is dropped.
///
/// Most strings are borrowed from the text, which is the caller's to zero; those with escape
/// sequences are copies.
#[derive(Debug)]
pub(crate) struct Tree<'i> {
    pub(crate) root: DeTable<'i>,
}

impl Drop for Tree<'_> {
    fn drop(&mut self) {
        wipe_table(&mut self.root);
    }
}

/// The parser bounds the nesting, and so this recursion.
fn wipe_table(table: &mut DeTable<'_>) {
    for (_, value) in table.iter_mut() {
        wipe(value.get_mut());
    }
}

fn wipe(value: &mut DeValue<'_>) {
    match value {
        DeValue::String(Cow::Owned(text)) => text.zeroize(),
        DeValue::Array(items) => items.iter_mut().for_each(|item| wipe(item.get_mut())),
        DeValue::Table(table) => wipe_table(table),
        // The other types hold no secret in a valid document, and their texts cannot be reached.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_strings_are_wiped_at_any_depth() {
        let mut root = DeTable::parse("a = \"\\u0041\"\nb = [[\"\\u0042\"], {c = \"\\u0043\"}]")
            .unwrap()
            .into_inner();
        assert!(format!("{root:?}").contains("\"C\""));
        wipe_table(&mut root);
        let wiped = format!("{root:?}");
        for secret in ["\"A\"", "\"B\"", "\"C\""] {
            assert!(!wiped.contains(secret), "{wiped}");
        }
    }
}
