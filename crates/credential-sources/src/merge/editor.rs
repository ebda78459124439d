//! Keys written into a document, with everything else left as it is, comments included.

use puller_config::RegistryName;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};
use zeroize::Zeroizing;

use super::masked::Mask;
use super::plan::Addition;
use crate::entry_keys::literal;

/// A document being edited, without its values.
pub(super) struct Editor {
    mask: Mask,
    document: DocumentMut,
}

impl Editor {
    /// Takes a valid document, and what will be added to it. `None` if the editor disagrees about
    /// its being valid.
    pub(super) fn new(text: &str, additions: &[Addition]) -> Option<Self> {
        let names: Vec<String> = additions
            .iter()
            .map(|addition| addition.name.to_string())
            .collect();
        let (mask, masked) = Mask::of(text, names.iter().map(String::as_str))?;
        Some(Self {
            mask,
            document: masked.parse().ok()?,
        })
    }

    /// Adds keys, unless they would take more bytes than there is `room`. Returns how many they
    /// take; `None` if the document has not the form that was found before.
    pub(super) fn add(&mut self, addition: &Addition, room: usize) -> Option<usize> {
        let is_new = addition.base.as_ref() != Some(&addition.name);
        let mut fields: Vec<(String, Value)> = Vec::new();
        if let (true, Some(base)) = (is_new, &addition.base) {
            fields = self.settings_of(base)?;
        }
        for (key, value) in &addition.keys {
            let stand_in = self.mask.hide(literal(value));
            fields.push(((*key).to_owned(), stand_in.parse().ok()?));
        }
        let name = if is_new {
            addition.name.to_string()
        } else {
            addition.base.as_ref()?.written()
        };
        let bytes = self.bytes(&name, &fields);
        if bytes <= room {
            self.put(&name, is_new, fields)?;
        }
        Some(bytes)
    }

    /// The document's text with all values.
    pub(super) fn finish(self) -> Zeroizing<Vec<u8>> {
        let mut text = self.mask.reveal(&self.document.to_string());
        Zeroizing::new(std::mem::take(&mut *text).into_bytes())
    }

    /// What an entry says. It holds no credentials, or nothing would be added.
    fn settings_of(&mut self, name: &RegistryName) -> Option<Vec<(String, Value)>> {
        let registries = self.registries()?.as_table_like()?;
        let entry = registries.get(&name.written())?.as_table_like()?;
        let field = |(key, item): (&str, &Item)| {
            let mut value = item.as_value()?.clone();
            value.decor_mut().clear();
            Some((key.to_owned(), value))
        };
        entry.iter().map(field).collect()
    }

    /// The space that an entry with these fields takes, headers and line ends generously counted.
    fn bytes(&self, name: &str, fields: &[(String, Value)]) -> usize {
        const AROUND_ENTRY: usize = "\n\n[registries.\"\"]\n".len();
        const AROUND_FIELD: usize = " = \n".len();
        let field = |(key, value): &(String, Value)| {
            key.len() + self.mask.revealed_bytes(&value.to_string()) + AROUND_FIELD
        };
        name.len() + AROUND_ENTRY + fields.iter().map(field).sum::<usize>()
    }

    fn put(&mut self, name: &str, is_new: bool, fields: Vec<(String, Value)>) -> Option<()> {
        let registries = self.registries()?;
        if !is_new {
            let entry = registries.as_table_like_mut()?.get_mut(name)?;
            insert_all(entry.as_table_like_mut()?, fields);
        } else if let Item::Table(registries) = registries {
            let mut entry = Table::new();
            insert_all(&mut entry, fields);
            registries.insert(name, Item::Table(entry));
        } else {
            let mut entry = InlineTable::new();
            insert_all(&mut entry, fields);
            registries.as_inline_table_mut()?.insert(name, entry.into());
        }
        Some(())
    }

    fn registries(&mut self) -> Option<&mut Item> {
        let root = self.document.as_table_mut();
        let item = root.entry("registries").or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        item.is_table_like().then_some(item)
    }
}

fn insert_all(entry: &mut dyn TableLike, fields: Vec<(String, Value)>) {
    for (key, value) in fields {
        entry.insert(&key, Item::Value(value));
    }
}
