//! The keys of an entry that say where to ask before the registry itself, read.

use std::collections::HashMap;
use std::sync::Arc;

use foreign_text::toml::Field;

use crate::limits::{MAX_MIRRORS, MAX_REPOSITORY_MIRRORS, MAX_REWRITES};
use crate::problem::{Findings, Place};
use crate::repositories::{check_prefix, prefixes};
use crate::section::Section;
use crate::{Mirror, Rewrite, Rule};

/// The keys of an entry.
pub(crate) const MIRROR: &str = "mirror";
pub(crate) const MIRRORS: &str = "mirrors";
const REWRITE: &str = "rewrite";

/// Reads `mirror`, `mirrors` and `rewrite`: each mirror with its place. What is broken is reported
/// and missing.
pub(crate) fn read(section: &mut Section<'_, '_>) -> Vec<(Place, Mirror)> {
    let findings = section.findings;
    let only = section.read(MIRROR, |field| Mirror::parse(field.text()?));
    let mut mirrors: Vec<_> = section.places.at(MIRROR).cloned().zip(only).into_iter().collect();
    let items = section.list(MIRRORS);
    if section.has(MIRROR) {
        section.problem(MIRRORS, Rule::MirrorTwice);
    } else if items.len() > MAX_MIRRORS {
        section.problem(MIRRORS, Rule::TooManyMirrors);
    } else {
        mirrors = items.iter().filter_map(|item| listed(item, findings)).collect();
        if let Some(place) = crowded(&mirrors) {
            findings.problem(place, Rule::TooManyMirrors);
        }
    }
    if let Some(rules) = read_rewrites(section) {
        let has_mirror = section.has(MIRROR) || section.has(MIRRORS);
        section.needs(REWRITE, has_mirror, Rule::RewriteWithoutMirror);
        // A mirror's own rules come in the place of those for all.
        for (_, mirror) in &mut mirrors {
            mirror.rewrites.get_or_insert_with(|| Arc::clone(&rules));
        }
    }
    mirrors
}

/// The first mirror whose repositories have too many.
fn crowded(mirrors: &[(Place, Mirror)]) -> Option<&Place> {
    let mut counts: HashMap<Option<&str>, usize> = HashMap::new();
    for (_, mirror) in mirrors {
        *counts.entry(mirror.prefix()).or_default() += 1;
    }
    let has_too_many = |(_, mirror): &&(Place, Mirror)| {
        let own = mirror.prefix().into_iter().flat_map(prefixes).map(Some);
        let count: usize = own.chain([None]).filter_map(|prefix| counts.get(&prefix)).sum();
        count > MAX_REPOSITORY_MIRRORS
    };
    let (place, _) = mirrors.iter().find(has_too_many)?;
    Some(place)
}

/// A mirror of the list: its URL, or a table.
fn listed<'t>(item: &Field<'t, '_>, findings: &'t Findings) -> Option<(Place, Mirror)> {
    let place = Place::from(item);
    let mut mirror = if let Ok(url) = item.text() {
        findings.kept(&place, Mirror::parse(url))?
    } else {
        let table = item.table().map_err(|_| item.wrong_type("string or table"));
        let mut section = Section::new(findings.kept(&place, table)?, findings);
        let [url, prefix] = ["url", "prefix"].map(|key| section.text(key));
        let rewrites = read_rewrites(&mut section);
        section.refuse_rest(None);
        section.needs("", section.has("url"), Rule::MirrorWithoutUrl);
        let mut mirror = section.kept("url", Mirror::parse(url?))?;
        if section.has("prefix") {
            let prefix = prefix?;
            section.kept("prefix", check_prefix(prefix))?;
            mirror.prefix = Some(prefix.into());
        }
        mirror.rewrites = rewrites;
        mirror
    };
    mirror.is_listed = true;
    Some((place, mirror))
}

fn read_rewrites(section: &mut Section<'_, '_>) -> Option<Arc<[Rewrite]>> {
    let tables = section.tables(REWRITE);
    section.places.at(REWRITE)?;
    if tables.len() > MAX_REWRITES {
        section.problem(REWRITE, Rule::TooManyRewrites);
        return Some(Arc::new([]));
    }
    let rule = |mut section: Section<'_, '_>| {
        let halves = ["from", "to"].map(|key| section.text(key));
        section.refuse_rest(None);
        section.needs("", section.has("from") && section.has("to"), Rule::RewriteHalf);
        let [from, to] = halves;
        section.kept("", Rewrite::parse(from?, to?))
    };
    Some(tables.into_iter().filter_map(rule).collect())
}
