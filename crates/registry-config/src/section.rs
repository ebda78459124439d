//! A table of the config while it is being read: known keys are taken out, what is left is unknown.

use foreign_text::toml::{Field, Table, join};
use foreign_text::{nearest, same_letters};

use crate::problem::{Findings, Place};
use crate::{Effect, Origin, Rule};

/// A table that is being read. What it is asked for is what it may have, so that no other list of
/// its keys is needed.
#[derive(Debug)]
pub(crate) struct Section<'t, 'i> {
    table: Table<'t, 'i>,
    pub(crate) findings: &'t Findings,
    /// The keys that it was asked for, each with its line if it is there. The table itself is the
    /// first, without a name.
    asked: Vec<(&'static str, Option<usize>)>,
    /// Whether no further key may be there, and the rule that forbids it.
    closed: Option<Rule>,
}

impl<'t, 'i> Section<'t, 'i> {
    pub(crate) fn new(table: Table<'t, 'i>, findings: &'t Findings) -> Self {
        Self { findings, asked: vec![("", Some(table.line))], table, closed: None }
    }

    /// The table that a value is; if it is none, that is reported.
    pub(crate) fn of(field: &Field<'t, 'i>, findings: &'t Findings) -> Option<Self> {
        Some(Self::new(findings.kept(field, field.table())?, findings))
    }

    /// The number of keys that are left.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Takes the keys that are left, in the document's order.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = Field<'t, 'i>> + use<'t, 'i> {
        self.table.drain()
    }

    pub(crate) fn take(&mut self, key: &'static str) -> Option<Field<'t, 'i>> {
        let field = self.table.take(key);
        if let Some(rule) = &self.closed {
            self.findings.problem(&field?, rule.clone());
            return None;
        }
        self.asked.push((key, field.as_ref().map(|field| field.line)));
        field
    }

    /// Takes a key and reads its value; what is wrong with that is reported.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Field<'t, 'i>) -> Result<T, Rule>,
    ) -> Option<T> {
        let field = self.take(key)?;
        self.findings.kept(&field, read(&field))
    }

    /// Takes a string. It is part of the tree: a secret is copied into memory that is zeroed.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<&'t str> {
        self.read(key, |field| Ok(field.text()?))
    }

    /// Takes a boolean; `false` if it is absent or has another type.
    pub(crate) fn flag(&mut self, key: &'static str) -> bool {
        self.read(key, |field| Ok(field.flag()?)).unwrap_or_default()
    }

    pub(crate) fn table(&mut self, key: &'static str) -> Option<Self> {
        let field = self.take(key)?;
        Self::of(&field, self.findings)
    }

    /// Takes an array; the items have places of their own.
    pub(crate) fn list(&mut self, key: &'static str) -> Vec<Field<'t, 'i>> {
        self.read(key, |field| Ok(field.items()?)).unwrap_or_default()
    }

    /// The strings of an array, with places of their own; what is none is reported and missing.
    pub(crate) fn texts(&self, field: &Field<'t, 'i>) -> Vec<(Place, &'t str)> {
        let items = self.findings.kept(field, field.items()).unwrap_or_default();
        let text = |item: Field<'t, 'i>| {
            let place = Place::from(&item);
            let text = self.findings.kept(&place, item.text())?;
            Some((place, text))
        };
        items.into_iter().filter_map(text).collect()
    }

    /// Takes an array of tables, `[[KEY]]`; what is no table in it is reported and missing.
    pub(crate) fn tables(&mut self, key: &'static str) -> Vec<Self> {
        let findings = self.findings;
        self.list(key).into_iter().filter_map(|item| Self::of(&item, findings)).collect()
    }

    /// The place of a key that was asked for.
    pub(crate) fn at(&self, key: &str) -> Option<Place> {
        let (_, line) = self.asked.iter().find(|(asked, _)| *asked == key)?;
        let path = &self.table.path;
        let key = if key.is_empty() { path.clone() } else { join(path, key) };
        Some(Place { line: (*line)?, key })
    }

    /// The keys that were asked for.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        self.asked.iter().skip(1).map(|(key, _)| *key).collect()
    }

    /// Whether a key that was asked for is there, be it broken.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.at(key).is_some()
    }

    /// Reports a rule that a key breaks which was asked for, if it is there.
    pub(crate) fn problem(&self, key: &str, rule: impl Into<Rule>) {
        if let Some(place) = self.at(key) {
            self.findings.problem(place, rule);
        }
    }

    /// Reports a key that is there without what it needs.
    pub(crate) fn needs(&self, key: &str, is_met: bool, rule: Rule) {
        if !is_met {
            self.problem(key, rule);
        }
    }

    pub(crate) fn warn(&self, key: &str, effect: Effect) {
        if let Some(place) = self.at(key) {
            self.findings.warning(place, effect);
        }
    }

    /// What was read of a key; what is wrong with it is reported.
    pub(crate) fn kept<T>(&self, key: &str, read: Result<T, impl Into<Rule>>) -> Option<T> {
        read.map_err(|rule| self.problem(key, rule)).ok()
    }

    /// Whether a key stands in the document that may have it, the owner's; if not, the rule is
    /// reported.
    pub(crate) fn is_owners(&self, key: &str, rule: Rule) -> bool {
        let is_measured = self.findings.origin == Origin::Measured;
        self.needs(key, is_measured, rule);
        is_measured
    }

    /// Refuses each key that is asked for from here on.
    pub(crate) fn close(&mut self, rule: Rule) {
        self.closed = Some(rule);
    }

    /// Refuses every key that is left.
    pub(crate) fn refuse_rest(&mut self, table_rule: Option<Rule>) {
        let rest = self.rest();
        self.refuse(rest, table_rule);
    }

    /// Reports keys as unknown, with the known one that was probably meant; tables by a rule of
    /// their own, if there is one, unless a known key has their letters.
    pub(crate) fn refuse(
        &self,
        unknown: impl IntoIterator<Item = Field<'t, 'i>>,
        table_rule: Option<Rule>,
    ) {
        let known = self.keys();
        for field in unknown {
            let same = same_letters(field.key, &known);
            let rule = match &table_rule {
                Some(rule) if field.is_table() && same.is_none() => rule.clone(),
                _ => Rule::UnknownKey { suggestion: same.or_else(|| nearest(field.key, &known)) },
            };
            self.findings.problem(&field, rule);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use foreign_text::toml::Tree;

    use super::*;
    use crate::{ImagePolicy, document, entry};

    /// The keys that a reader asks a table for.
    fn asked(read: impl FnOnce(&mut Section<'_, '_>)) -> Vec<&'static str> {
        let tree = Tree::parse(b"").unwrap();
        let findings = Findings::of(Origin::Measured);
        let mut section = Section::new(tree.table(), &findings);
        read(&mut section);
        section.keys()
    }

    pub(crate) fn of_document() -> Vec<&'static str> {
        asked(|section| drop(document::read(section)))
    }

    pub(crate) fn of_entry() -> Vec<&'static str> {
        asked(|section| drop(entry::read(section, false)))
    }

    #[test]
    fn each_key_has_a_row_on_the_page() {
        let of_image_policy = asked(|section| drop(ImagePolicy::read(section)));
        let page = include_str!("../../../docs/document.md");
        let tables = page.split("| key | type | meaning |\n").skip(1);
        let tables: Vec<BTreeSet<_>> = tables
            .map(|table| {
                table.lines().skip(1).map_while(|row| row.strip_prefix("| `")?.split('`').next())
            })
            .map(Iterator::collect)
            .collect();
        let known = [of_document(), of_entry(), of_image_policy];
        assert_eq!(tables, known.map(BTreeSet::from_iter));
    }
}
