//! The keys of an entry that say where to ask before the registry itself, read.

use std::collections::HashMap;
use std::sync::Arc;

use toml::de::DeValue;

use crate::limits::{MAX_MIRRORS, MAX_REPOSITORY_MIRRORS, MAX_REWRITES};
use crate::problem::{Findings, Place};
use crate::repositories::{check_prefix, prefixes};
use crate::section::{Field, Section, wrong_type};
use crate::{Mirror, Rewrite, Rule};

/// The keys of an entry.
pub(crate) const MIRRORS: &str = "mirrors";
pub(crate) const REWRITE: &str = "rewrite";

/// The keys of a mirror, for suggestions.
const MIRROR_KEYS: [&str; 3] = ["url", "prefix", REWRITE];

/// The keys of a rule for names, for suggestions.
const REWRITE_KEYS: [&str; 2] = ["from", "to"];

/// The mirrors of an entry, each with its place, in their order.
#[derive(Debug, Default)]
pub(crate) struct MirrorKeys {
    pub(crate) mirrors: Vec<(Place, Mirror)>,
    /// Where the first key about mirrors is, also if what it says is broken.
    pub(crate) place: Option<Place>,
}

impl MirrorKeys {
    /// Takes `mirror`, `mirrors` and `rewrite`; what is broken is reported and missing.
    pub(crate) fn take(section: &mut Section<'_, '_>, findings: &mut Findings) -> Self {
        let mut keys = Self::default();
        if let Some(Field { place, value }) = section.take_string("mirror", findings) {
            let mirror = value.and_then(|text| parsed(&text, &place, findings));
            keys.mirrors.extend(mirror.map(|mirror| (place.clone(), mirror)));
            keys.place = Some(place);
        }
        if let Some(Field { place, value }) = section.take_list(MIRRORS, findings) {
            if keys.place.is_some() {
                findings.problem(&place, Rule::MirrorTwice);
            } else if value.len() > MAX_MIRRORS {
                findings.problem(&place, Rule::TooManyMirrors);
            } else {
                let mirrors = value.into_iter().filter_map(|item| listed(item, section, findings));
                keys.mirrors = mirrors.collect();
                if let Some(place) = crowded(&keys.mirrors) {
                    findings.problem(place, Rule::TooManyMirrors);
                }
            }
            keys.place.get_or_insert(place);
        }
        if let Some((place, rules)) = take_rewrites(section, findings) {
            if keys.place.is_none() {
                findings.problem(&place, Rule::RewriteWithoutMirror);
            }
            // A mirror's own rules come in the place of those for all.
            for (_, mirror) in &mut keys.mirrors {
                mirror.rewrites.get_or_insert_with(|| Arc::clone(&rules));
            }
        }
        keys
    }
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

fn parsed(text: &str, place: &Place, findings: &mut Findings) -> Option<Mirror> {
    Mirror::parse(text).map_err(|rule| findings.problem(place, rule)).ok()
}

/// A mirror of the list: its URL, or a table.
fn listed<'t, 'i>(
    Field { place, value }: Field<&'t mut DeValue<'i>>,
    of: &Section<'t, 'i>,
    findings: &mut Findings,
) -> Option<(Place, Mirror)> {
    let mut mirror = match value {
        DeValue::String(text) => parsed(text, &place, findings)?,
        DeValue::Table(table) => {
            let mut section = of.inner(place.clone(), table);
            let url = section.take_string("url", findings);
            let prefix = section.take_string("prefix", findings);
            let rewrites = take_rewrites(&mut section, findings);
            let unknown = Rule::UnknownKey { suggestion: None };
            section.refuse_rest(&MIRROR_KEYS, &unknown, findings);
            let Some(url) = url else {
                findings.problem(&place, Rule::MirrorWithoutUrl);
                return None;
            };
            let mut mirror = parsed(&url.value?, &url.place, findings)?;
            if let Some(Field { place, value }) = prefix {
                let text = value?;
                let checked = check_prefix(&text);
                checked.map_err(|name| findings.problem(&place, name)).ok()?;
                mirror.prefix = Some(text.as_str().into());
            }
            mirror.rewrites = rewrites.map(|(_, rules)| rules);
            mirror
        }
        other => {
            findings.problem(&place, wrong_type("string or table", other));
            return None;
        }
    };
    mirror.is_listed = true;
    Some((place, mirror))
}

fn take_rewrites(
    section: &mut Section<'_, '_>,
    findings: &mut Findings,
) -> Option<(Place, Arc<[Rewrite]>)> {
    let Field { place, value } = section.take_table_list(REWRITE, findings)?;
    if value.len() > MAX_REWRITES {
        findings.problem(&place, Rule::TooManyRewrites);
        return Some((place, Arc::new([])));
    }
    let mut rules = Vec::new();
    for mut section in value {
        let own = section.place().clone();
        let [from, to] = REWRITE_KEYS.map(|key| section.take_string(key, findings));
        let unknown = Rule::UnknownKey { suggestion: None };
        section.refuse_rest(&REWRITE_KEYS, &unknown, findings);
        let (Some(from), Some(to)) = (from, to) else {
            findings.problem(&own, Rule::RewriteHalf);
            continue;
        };
        if let (Some(from), Some(to)) = (from.value, to.value) {
            let rule = Rewrite::parse(&from, &to);
            rules.extend(rule.map_err(|rule| findings.problem(&own, rule)));
        }
    }
    Some((place, rules.into()))
}
