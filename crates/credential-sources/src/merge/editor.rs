//! Keys written into a document, with everything else left as it is, comments included.

use registry_config::RegistryName;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};
use zeroize::Zeroizing;

use super::masked::Mask;
use super::plan::Addition;
use crate::entry_keys::literal;

/// What an entry or an account takes besides its name and its fields.
const AROUND_ENTRY: usize = "\n\n[[registries.\"\".also]]\n".len();

/// What a field takes besides its key and its value.
const AROUND_FIELD: usize = " = \n".len();

/// Keys and their values, which are stand-ins.
type Fields = Vec<(String, Value)>;

/// What of an addition there was room for.
pub(super) struct Added {
    /// How many bytes it takes.
    pub(super) bytes: usize,
    /// How many of its accounts are in the document.
    pub(super) accounts: usize,
}

/// A document being edited, without its values.
pub(super) struct Editor {
    mask: Mask,
    document: DocumentMut,
}

impl Editor {
    /// Takes a valid document, and what will be added to it. `None` if the editor disagrees about
    /// its being valid.
    pub(super) fn new(text: &str, additions: &[Addition]) -> Option<Self> {
        let names: Vec<String> =
            additions.iter().map(|addition| addition.name.to_string()).collect();
        let (mask, masked) = Mask::of(text, names.iter().map(String::as_str))?;
        Some(Self { mask, document: masked.parse().ok()? })
    }

    /// Adds accounts, as many as do not take more bytes than there is `room`. `None` if the
    /// document has not the form that was found before.
    pub(super) fn add(&mut self, addition: &Addition, room: usize) -> Option<Added> {
        let is_new = addition.base.as_ref() != Some(&addition.name);
        let mut fields = match (is_new, &addition.base) {
            (true, Some(base)) => self.settings_of(base)?,
            _ => Fields::new(),
        };
        let name =
            if is_new { addition.name.to_string() } else { addition.base.as_ref()?.written() };
        let mut added = Added { bytes: self.bytes(&fields), accounts: 0 };
        let mut accounts = Vec::new();
        for keys in &addition.accounts {
            let literals: Vec<_> = keys.iter().map(|(key, text)| (*key, literal(text))).collect();
            let more = literals.iter().map(|(key, text)| key.len() + text.len() + AROUND_FIELD);
            let bytes = added.bytes + more.sum::<usize>() + name.len() + AROUND_ENTRY;
            // What there is no room for is not kept here either.
            if bytes > room {
                break;
            }
            added.bytes = bytes;
            added.accounts += 1;
            accounts.push(self.hidden(literals)?);
        }
        let mut accounts = accounts.into_iter();
        match accounts.next() {
            Some(first) => fields.extend(first),
            None => added.bytes = 0,
        }
        if added.accounts > 0 {
            self.put(&name, is_new, fields, accounts.collect())?;
        }
        Some(added)
    }

    fn hidden(&mut self, literals: Vec<(&str, Zeroizing<String>)>) -> Option<Fields> {
        let fields = literals.into_iter().map(|(key, literal)| {
            let stand_in = self.mask.hide(literal);
            Some((key.to_owned(), stand_in.parse().ok()?))
        });
        fields.collect()
    }

    /// The document's text with all values.
    pub(super) fn finish(self) -> Zeroizing<Vec<u8>> {
        let mut text = self.mask.reveal(&self.document.to_string());
        Zeroizing::new(std::mem::take(&mut *text).into_bytes())
    }

    /// What an entry says. It holds no credentials, or nothing would be added.
    fn settings_of(&mut self, name: &RegistryName) -> Option<Fields> {
        let registries = self.registries()?.as_table_like()?;
        let entry = registries.get(&name.written())?.as_table_like()?;
        let field = |(key, item): (&str, &Item)| {
            // Lists of tables too: `[[registries."NAME".mirrors]]`.
            let mut value = item.clone().into_value().ok()?;
            value.decor_mut().clear();
            Some((key.to_owned(), value))
        };
        entry.iter().map(field).collect()
    }

    /// The space that fields take, line ends generously counted.
    fn bytes(&self, fields: &[(String, Value)]) -> usize {
        let field = |(key, value): &(String, Value)| {
            key.len() + self.mask.revealed_bytes(&value.to_string()) + AROUND_FIELD
        };
        fields.iter().map(field).sum()
    }

    fn put(&mut self, name: &str, is_new: bool, fields: Fields, also: Vec<Fields>) -> Option<()> {
        let registries = self.registries()?;
        if !is_new {
            let entry = registries.as_table_like_mut()?.get_mut(name)?;
            // `registries.NAME.key = value` goes on as it began.
            let is_section = entry.as_table().is_some_and(|table| !table.is_dotted());
            insert_all(entry.as_table_like_mut()?, fields, also, is_section);
        } else if let Item::Table(registries) = registries {
            let mut entry = Table::new();
            insert_all(&mut entry, fields, also, true);
            registries.insert(name, Item::Table(entry));
        } else {
            let mut entry = InlineTable::new();
            insert_all(&mut entry, fields, also, false);
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

fn insert_all(entry: &mut dyn TableLike, fields: Fields, also: Vec<Fields>, is_section: bool) {
    for (key, value) in fields {
        entry.insert(&key, Item::Value(value));
    }
    if also.is_empty() {
        return;
    }
    let accounts = also.into_iter();
    let accounts = if is_section {
        let tables = accounts.map(Table::from_iter);
        Item::ArrayOfTables(ArrayOfTables::from_iter(tables))
    } else {
        let tables = accounts.map(InlineTable::from_iter);
        Item::Value(Value::Array(Array::from_iter(tables)))
    };
    entry.insert("also", accounts);
}
