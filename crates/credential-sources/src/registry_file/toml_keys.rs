//! A table of a TOML file, read key by key; what is left over is told.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroize;

use super::Report;
use super::shown::join;

/// The parsed file, whose strings are zeroed when it is dropped as far as they are copies. No
/// `Debug`, which would show them.
pub(crate) struct Tree<'i>(DeTable<'i>);

impl Drop for Tree<'_> {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// The parser bounds the nesting, and so this recursion.
fn wipe(table: &mut DeTable<'_>) {
    for (_, value) in table.iter_mut() {
        wipe_value(value.get_mut());
    }
}

fn wipe_value(value: &mut DeValue<'_>) {
    match value {
        DeValue::String(Cow::Owned(text)) => text.zeroize(),
        DeValue::Array(items) => items.iter_mut().for_each(|item| wipe_value(item.get_mut())),
        DeValue::Table(table) => wipe(table),
        _ => {}
    }
}

impl<'i> Tree<'i> {
    /// Parses a file of at most `limit` bytes, which bounds the parser's memory: about a kilobyte
    /// for two bytes.
    pub(crate) fn parse(
        bytes: &'i [u8],
        limit: usize,
        source: &str,
        report: &mut Report,
    ) -> Option<Self> {
        if bytes.len() > limit {
            report.fault(source, "", format!("the file has more than {limit} bytes"));
            return None;
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            report.fault(source, "", "not UTF-8 text");
            return None;
        };
        match DeTable::parse(text) {
            Ok(table) => Some(Self(table.into_inner())),
            Err(error) => {
                let start = error.span().map_or(0, |span| span.start.min(bytes.len()));
                let line = bytes[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
                // The parser's own words; its `Display` would quote the line.
                report.fault(
                    source,
                    "",
                    format!("not TOML at line {line}: {}", error.message()),
                );
                None
            }
        }
    }

    /// The table of the whole file.
    pub(crate) fn keys<'t>(&'t self, source: &'t str) -> Keys<'t, 'i> {
        Keys::of(&self.0, source, String::new())
    }
}

/// A table that is being read.
pub(crate) struct Keys<'t, 'i> {
    source: &'t str,
    /// The table's key, printable; empty for the file itself.
    pub(crate) path: String,
    /// Key, its offset, value; what is taken is gone.
    fields: Vec<(&'t str, usize, &'t DeValue<'i>)>,
}

impl<'t, 'i> Keys<'t, 'i> {
    fn of(table: &'t DeTable<'i>, source: &'t str, path: String) -> Self {
        let field = |(key, value): (&'t Spanned<Cow<'i, str>>, &'t Spanned<DeValue<'i>>)| {
            (key.get_ref().as_ref(), key.span().start, value.get_ref())
        };
        let mut fields: Vec<_> = table.iter().map(field).collect();
        fields.sort_by_key(|(_, offset, _)| *offset);
        Self {
            source,
            path,
            fields,
        }
    }

    /// The printable name of a key of this table.
    pub(crate) fn name(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The value of a key, by its present name and place in the file.
    pub(crate) fn take(&mut self, key: &str) -> Option<&'t DeValue<'i>> {
        let index = self.fields.iter().position(|(name, ..)| *name == key)?;
        Some(self.fields.remove(index).2)
    }

    /// A string.
    pub(crate) fn text(&mut self, key: &str, report: &mut Report) -> Option<&'t str> {
        let value = self.take(key)?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong_type(key, "string", value, report);
        }
        text
    }

    /// A boolean; `None` where it is absent or has another type, which is reported.
    pub(crate) fn flag(&mut self, key: &str, report: &mut Report) -> Option<bool> {
        let value = self.take(key)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong_type(key, "boolean", value, report);
        }
        flag
    }

    /// A string or an array of strings.
    pub(crate) fn texts(&mut self, key: &str, report: &mut Report) -> Option<Vec<&'t str>> {
        let value = self.take(key)?;
        let texts = match value {
            DeValue::String(text) => Some(vec![text.as_ref()]),
            DeValue::Array(items) => items.iter().map(|item| item.get_ref().as_str()).collect(),
            _ => None,
        };
        if texts.is_none() {
            self.wrong_type(key, "string or array of strings", value, report);
        }
        texts
    }

    /// A table.
    pub(crate) fn table(&mut self, key: &str, report: &mut Report) -> Option<Self> {
        let value = self.take(key)?;
        self.as_table(self.name(key), value, report)
    }

    /// An array of tables.
    pub(crate) fn tables(&mut self, key: &str, report: &mut Report) -> Vec<Self> {
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        let Some(items) = value.as_array() else {
            self.wrong_type(key, "array of tables", value, report);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let name = format!("{}[{index}]", self.name(key));
            tables.extend(self.as_table(name, item.get_ref(), report));
        }
        tables
    }

    /// The tables that are left, each with its key, in the file's order. `name` says how their keys
    /// are shown.
    pub(crate) fn into_tables(
        self,
        name: impl Fn(&str) -> String,
        report: &mut Report,
    ) -> Vec<(&'t str, Self)> {
        let mut tables = Vec::new();
        for (key, _, value) in &self.fields {
            let path = format!("{}.\"{}\"", self.path, name(key));
            tables.extend(
                self.as_table(path, value, report)
                    .map(|table| (*key, table)),
            );
        }
        tables
    }

    /// The keys that are left, in the file's order.
    pub(crate) fn into_fields(self) -> impl Iterator<Item = (&'t str, &'t DeValue<'i>)> {
        self.fields.into_iter().map(|(key, _, value)| (key, value))
    }

    /// Reports every key that is left.
    pub(crate) fn tell_rest(self, report: &mut Report) {
        for (key, ..) in &self.fields {
            report.lost(
                self.source,
                &self.name(key),
                "left out: not a key that is known here",
            );
        }
    }

    fn as_table(&self, path: String, value: &'t DeValue<'i>, report: &mut Report) -> Option<Self> {
        match value {
            DeValue::Table(table) => Some(Self::of(table, self.source, path)),
            other => {
                let text = format!("expected table, found {}", other.type_str());
                report.fault(self.source, &path, text);
                None
            }
        }
    }

    fn wrong_type(&self, key: &str, expected: &str, found: &DeValue<'_>, report: &mut Report) {
        let text = format!("expected {expected}, found {}", found.type_str());
        report.fault(self.source, &self.name(key), text);
    }
}
