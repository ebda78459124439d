//! A table of the document while it is being read: known keys are taken out, what is left is
//! unknown.

mod key_path;
mod tree;

use std::borrow::Cow;

use foreign_text::{nearest, same_letters};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zeroize::{Zeroize, Zeroizing};

use crate::Rule;
use crate::problem::{Findings, Place};

pub(crate) use key_path::join;
pub(crate) use tree::Tree;

/// Turns byte offsets of the document into line numbers.
#[derive(Debug)]
pub(crate) struct Lines {
    line_feeds: Vec<usize>,
}

impl Lines {
    pub(crate) fn of(text: &[u8]) -> Self {
        let line_feeds = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        Self { line_feeds: line_feeds.map(|(offset, _)| offset).collect() }
    }

    /// The line, from 1, of the byte at this offset.
    pub(crate) fn at(&self, offset: usize) -> usize {
        self.line_feeds.partition_point(|line_feed| *line_feed < offset) + 1
    }
}

/// A value with the place of its key.
#[derive(Debug)]
pub(crate) struct Field<T> {
    pub(crate) place: Place,
    pub(crate) value: T,
}

/// A table that is being read.
#[derive(Debug)]
pub(crate) struct Section<'t, 'i> {
    place: Place,
    lines: &'t Lines,
    /// Key, its offset, value; in the document's order.
    fields: Vec<(&'t str, usize, &'t mut DeValue<'i>)>,
}

impl<'t, 'i> Section<'t, 'i> {
    pub(crate) fn new(place: Place, table: &'t mut DeTable<'i>, lines: &'t Lines) -> Self {
        let field = |(key, value): (&'t Spanned<Cow<'i, str>>, &'t mut Spanned<DeValue<'i>>)| {
            (key.get_ref().as_ref(), key.span().start, value.get_mut())
        };
        let mut fields: Vec<_> = table.iter_mut().map(field).collect();
        fields.sort_by_key(|(_, offset, _)| *offset);
        Self { place, lines, fields }
    }

    /// The table that a value is; if it is none, that is reported.
    fn of(
        place: Place,
        value: &'t mut DeValue<'i>,
        lines: &'t Lines,
        findings: &mut Findings,
    ) -> Option<Self> {
        match value {
            DeValue::Table(table) => Some(Self::new(place, table, lines)),
            other => {
                findings.problem(&place, wrong_type("table", other));
                None
            }
        }
    }

    /// The place of the table itself.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The number of keys that are left.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The keys that are left with their values, in the document's order.
    pub(crate) fn into_fields(self) -> impl Iterator<Item = (&'t str, Field<&'t mut DeValue<'i>>)> {
        let Self { place, lines, fields } = self;
        fields.into_iter().map(move |(key, offset, value)| {
            let place = Place { line: lines.at(offset), key: join(&place.key, key) };
            (key, Field { place, value })
        })
    }

    /// The tables that are left, in the document's order; what is no table is reported.
    pub(crate) fn into_tables(self, findings: &mut Findings) -> Vec<(&'t str, Self)> {
        let lines = self.lines;
        let mut table =
            |(key, Field { place, value })| Some((key, Self::of(place, value, lines, findings)?));
        self.into_fields().filter_map(&mut table).collect()
    }

    /// The tables that are left, in the document's order, and a section of all that is no table.
    pub(crate) fn split_tables(self) -> (Vec<(&'t str, Self)>, Self) {
        let Self { place, lines, fields } = self;
        let (mut tables, mut rest) = (Vec::new(), Vec::new());
        for (key, offset, value) in fields {
            match value {
                DeValue::Table(table) => {
                    let place = Place { line: lines.at(offset), key: join(&place.key, key) };
                    tables.push((key, Self::new(place, table, lines)));
                }
                other => rest.push((key, offset, other)),
            }
        }
        let rest = Self { place, lines, fields: rest };
        (tables, rest)
    }

    /// The places of the strings that are left, in the document's order; what is no string is
    /// reported.
    pub(crate) fn into_string_places(self, findings: &mut Findings) -> Vec<Place> {
        let mut place =
            |(_, Field { place, value })| string(&place, value, findings).map(|_| place);
        self.into_fields().filter_map(&mut place).collect()
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Field<&'t mut DeValue<'i>>> {
        let index = self.fields.iter().position(|(name, ..)| *name == key)?;
        let (key, offset, value) = self.fields.remove(index);
        let place = Place { line: self.lines.at(offset), key: join(&self.place.key, key) };
        Some(Field { place, value })
    }

    /// Takes a string; its value is `None` if the key has another type, which is reported.
    pub(crate) fn take_string(
        &mut self,
        key: &str,
        findings: &mut Findings,
    ) -> Option<Field<Option<Zeroizing<String>>>> {
        let Field { place, value } = self.take(key)?;
        let value = string(&place, value, findings);
        Some(Field { place, value })
    }

    /// Takes a list of strings; the items have places of their own. What is no array, and what is
    /// no string in it, is reported and missing. With a separator, a string that separates the
    /// items is as good as an array, and an empty one has none.
    pub(crate) fn take_strings(
        &mut self,
        key: &str,
        separator: Option<char>,
        findings: &mut Findings,
    ) -> Option<Field<Vec<Field<Zeroizing<String>>>>> {
        let Field { place, value } = self.take(key)?;
        let item_place =
            |line, index| Place { line, key: format!("{}, item {}", place.key, index + 1) };
        let mut items = Vec::new();
        match (value, separator) {
            (DeValue::Array(values), _) => {
                for (index, item) in values.iter_mut().enumerate() {
                    let place = item_place(self.lines.at(item.span().start), index);
                    if let Some(value) = string(&place, item.get_mut(), findings) {
                        items.push(Field { place, value });
                    }
                }
            }
            (DeValue::String(text), Some(separator)) => {
                let items_of = |text| str::split(text, separator).enumerate();
                let all = Some(text.as_ref()).filter(|text| !text.trim().is_empty());
                for (index, item) in all.into_iter().flat_map(items_of) {
                    items.push(Field {
                        place: item_place(place.line, index),
                        value: Zeroizing::new(item.trim().to_owned()),
                    });
                }
                if let Cow::Owned(text) = text {
                    text.zeroize();
                }
            }
            (other, _) => findings.problem(&place, wrong_type("array", other)),
        }
        Some(Field { place, value: items })
    }

    /// Takes a boolean; `false` if the key has another type, which is reported.
    pub(crate) fn take_bool(&mut self, key: &str, findings: &mut Findings) -> Option<Field<bool>> {
        let Field { place, value } = self.take(key)?;
        let value = value.as_bool().unwrap_or_else(|| {
            findings.problem(&place, wrong_type("boolean", value));
            false
        });
        Some(Field { place, value })
    }

    /// Takes a table; `None` if it is absent or has another type, which is reported.
    pub(crate) fn take_table(&mut self, key: &str, findings: &mut Findings) -> Option<Self> {
        let Field { place, value } = self.take(key)?;
        Self::of(place, value, self.lines, findings)
    }

    /// A table of this document at a place.
    pub(crate) fn inner(&self, place: Place, table: &'t mut DeTable<'i>) -> Self {
        Self::new(place, table, self.lines)
    }

    /// Takes an array; the items have places of their own. What is no array is reported.
    pub(crate) fn take_list(
        &mut self,
        key: &str,
        findings: &mut Findings,
    ) -> Option<Field<Vec<Field<&'t mut DeValue<'i>>>>> {
        let Field { place, value } = self.take(key)?;
        let mut items = Vec::new();
        match value {
            DeValue::Array(values) => {
                for (index, item) in values.iter_mut().enumerate() {
                    let place = Place {
                        line: self.lines.at(item.span().start),
                        key: format!("{}, item {}", place.key, index + 1),
                    };
                    let value = item.get_mut();
                    items.push(Field { place, value });
                }
            }
            other => findings.problem(&place, wrong_type("array", other)),
        }
        Some(Field { place, value: items })
    }

    /// Takes an array of tables, `[[KEY]]`; the tables have places of their own. What is no array,
    /// and what is no table in it, is reported and missing.
    pub(crate) fn take_table_list(
        &mut self,
        key: &str,
        findings: &mut Findings,
    ) -> Option<Field<Vec<Self>>> {
        let Field { place, value } = self.take_list(key, findings)?;
        let tables = value
            .into_iter()
            .filter_map(|Field { place, value }| Self::of(place, value, self.lines, findings))
            .collect();
        Some(Field { place, value: tables })
    }

    /// Reports every key that is left as unknown, with the known one that was probably meant; tables
    /// by a rule of their own, unless a known key has their letters.
    pub(crate) fn refuse_rest(
        self,
        known: &[&'static str],
        table_rule: &Rule,
        findings: &mut Findings,
    ) {
        for (key, Field { place, value }) in self.into_fields() {
            let is_table = value.is_table() && !matches!(table_rule, Rule::UnknownKey { .. });
            let rule = match same_letters(key, known) {
                None if is_table => table_rule.clone(),
                same => Rule::UnknownKey { suggestion: same.or_else(|| nearest(key, known)) },
            };
            findings.problem(&place, rule);
        }
    }
}

/// Moves a string out of the document; if the value is none, that is reported.
fn string(
    place: &Place,
    value: &mut DeValue<'_>,
    findings: &mut Findings,
) -> Option<Zeroizing<String>> {
    match value {
        DeValue::String(text) => Some(Zeroizing::new(std::mem::take(text).into_owned())),
        other => {
            findings.problem(place, wrong_type("string", other));
            None
        }
    }
}

pub(crate) fn wrong_type(expected: &'static str, found: &DeValue<'_>) -> Rule {
    Rule::WrongType { expected, found: found.type_str() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_becomes_a_line() {
        let lines = Lines::of(b"a\n\nb");
        let at: Vec<_> = (0..=4).map(|offset| lines.at(offset)).collect();
        assert_eq!(at, [1, 1, 2, 3, 3]);
    }
}
