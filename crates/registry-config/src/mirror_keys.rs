//! The keys of an entry that say where to ask before the registry itself, read.

use std::collections::HashMap;

use foreign_text::toml::Field;

use crate::limits::{MAX_MIRRORS, MAX_REPOSITORY_MIRRORS};
use crate::mirror::check_repositories;
use crate::problem::{Findings, Place};
use crate::repositories::prefixes;
use crate::section::Section;
use crate::{Mirror, Rule};

/// The keys of an entry.
pub(crate) const MIRROR: &str = "mirror";
pub(crate) const MIRRORS: &str = "mirrors";

/// Reads `mirror` and `mirrors`: each mirror with its place, and the repositories that
/// nobody is asked for. What is broken is reported and missing.
pub(crate) fn read(section: &mut Section<'_, '_>) -> (Vec<(Place, Mirror)>, Vec<Box<str>>) {
    let findings = section.findings;
    let only = section.read(MIRROR, |field| Mirror::parse(field.text()?));
    let mut mirrors: Vec<_> = section.at(MIRROR).zip(only).into_iter().collect();
    let mut blocked = Vec::new();
    let items = section.list(MIRRORS);
    if section.has(MIRROR) {
        section.problem(MIRRORS, Rule::MirrorTwice);
    } else if items.len() > MAX_MIRRORS {
        section.problem(MIRRORS, Rule::TooManyMirrors);
    } else {
        for item in &items {
            mirrors.extend(listed(item, &mut blocked, findings));
        }
        if let Some(place) = crowded(&mirrors) {
            findings.problem(place, Rule::TooManyMirrors);
        }
    }
    (mirrors, blocked)
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

/// Reads an item of the list: a URL, or a table. One without a URL says which repositories nobody
/// is asked for.
fn listed<'t>(
    item: &Field<'t, '_>,
    blocked: &mut Vec<Box<str>>,
    findings: &'t Findings,
) -> Option<(Place, Mirror)> {
    let place = Place::from(item);
    let mut mirror = if let Ok(url) = item.text() {
        findings.kept(&place, Mirror::parse(url))?
    } else {
        let table = item.table().map_err(|_| item.wrong_type("string or table"));
        let mut section = Section::new(findings.kept(&place, table)?, findings);
        let url = section.text("url");
        let prefix = repositories("prefix", false, &mut section);
        let name = repositories("name", section.has("prefix"), &mut section);
        let fallback = section.read("fallback", |field| Ok(field.flag()?));
        section.refuse_rest(None);
        if !section.has("url") {
            match (prefix?, section.has("name"), fallback) {
                (Some(prefix), false, Some(false)) => blocked.push(prefix),
                _ => section.problem("", Rule::MirrorWithoutUrl),
            }
            return None;
        }
        let mirror = section.kept("url", Mirror::parse(url?))?;
        Mirror { prefix: prefix?, name: name?, fallback, ..mirror }
    };
    mirror.is_listed = true;
    Some((place, mirror))
}

/// Segments of repository names, if the key is there; `None` where they are broken, which is
/// reported.
fn repositories(
    key: &'static str,
    may_be_empty: bool,
    section: &mut Section<'_, '_>,
) -> Option<Option<Box<str>>> {
    let text = section.text(key);
    if !section.has(key) {
        return Some(None);
    }
    section.kept(key, check_repositories(text, may_be_empty))?;
    Some(Some(text?.into()))
}
