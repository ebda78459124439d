//! `[image-policy]` of the measured document: where the policy of signatures is, and what holds
//! beside it.
//!
//! Scopes, digests and policies are not this crate's to read. They are kept as they were written,
//! and the room `image-policy` gives them their meaning, for the guest and for who checks a
//! document.

use zeroize::Zeroizing;

use crate::limits::{MAX_ALLOW_TAGS, MAX_REFUSED};
use crate::problem::{Findings, Origin, Place, Problems};
use crate::section::{Field, Section};
use crate::{ResourceUri, Rule};

/// The table.
pub(crate) const KEY: &str = "image-policy";

pub(crate) const TEXT: &str = "text";
pub(crate) const FILE: &str = "file";
pub(crate) const URI: &str = "uri";
pub(crate) const ALLOW_TAGS: &str = "allow-tags";
pub(crate) const REFUSE: &str = "refuse";

/// Its keys.
const KEYS: [&str; 5] = [TEXT, FILE, URI, ALLOW_TAGS, REFUSE];

/// Which signatures images need, as it was written.
#[derive(Clone, Debug)]
pub struct ImagePolicy {
    /// Where the policy is.
    pub source: PolicySource,
    /// Whether an owner's `cdh.toml`, or a kernel parameter for it, says it: no key.
    pub is_of_cdh: bool,
    /// Scopes of images whose tags may be resolved; at most [`MAX_ALLOW_TAGS`].
    pub allow_tags: Vec<String>,
    /// Digests of manifests and indexes that do not run; at most [`MAX_REFUSED`].
    pub refuse: Vec<String>,
    places: Places,
}

/// Where the policy is.
#[derive(Clone, Debug)]
pub enum PolicySource {
    /// In the document.
    Text(String),
    /// A key of the initdata's `[data]`: one plain file name, of a file beside the document.
    File(String),
    /// Where the guest gets it.
    Uri(ResourceUri),
}

/// A part of the section that somebody else gives its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyPart {
    /// The policy itself, or the key that says where it is.
    Source,
    /// The scope with this index in `allow-tags`.
    AllowTag(usize),
    /// The digest with this index in `refuse`.
    Refuse(usize),
}

#[derive(Clone, Debug)]
struct Places {
    source: Place,
    allow_tags: Vec<Place>,
    refuse: Vec<Place>,
}

impl ImagePolicy {
    /// Reads the section; `None` if it has no policy, which is reported.
    pub(crate) fn read(mut section: Section<'_, '_>, findings: &mut Findings) -> Option<Self> {
        let (allow_tags, allow_places) = read_list(&mut section, ALLOW_TAGS, findings);
        let (refuse, refuse_places) = read_list(&mut section, REFUSE, findings);
        let source = read_source(&mut section, findings);
        section.refuse_rest(&KEYS, &Rule::UnknownKey { suggestion: None }, findings);
        let Field { place, value } = source?;
        Some(Self {
            source: value,
            is_of_cdh: false,
            allow_tags,
            refuse,
            places: Places { source: place, allow_tags: allow_places, refuse: refuse_places },
        })
    }

    /// The line of the key that says where the policy is, from 1.
    pub fn line(&self) -> usize {
        self.places.source.line
    }

    /// What is wrong with some parts, as problems of the document.
    pub fn problems(&self, faults: impl IntoIterator<Item = (PolicyPart, String)>) -> Problems {
        let mut findings = Findings::default();
        for (part, words) in faults {
            let place = match part {
                PolicyPart::Source => Some(&self.places.source),
                PolicyPart::AllowTag(index) => self.places.allow_tags.get(index),
                PolicyPart::Refuse(index) => self.places.refuse.get(index),
            };
            let place = place.unwrap_or(&self.places.source);
            findings.problem(place, Rule::ImagePolicy(words));
        }
        findings.into_problems()
    }

    /// The dotted key that says where the policy is.
    pub fn key(&self) -> &str {
        &self.places.source.key
    }
}

/// The one source. What is written of it and is not right is reported, and then there is none.
fn read_source(
    section: &mut Section<'_, '_>,
    findings: &mut Findings,
) -> Option<Field<PolicySource>> {
    let table = section.place().clone();
    let mut written = Vec::new();
    for key in [TEXT, FILE, URI] {
        if let Some(field) = section.take_string(key, findings) {
            written.push((key, field));
        }
    }
    match written.len() {
        0 => findings.problem(&table, Rule::NoPolicySource),
        1 => {}
        _ => {
            for (_, field) in written.drain(1..) {
                findings.problem(&field.place, Rule::SecondPolicySource);
            }
        }
    }
    let (key, Field { place, value }) = written.pop()?;
    match parse_source(key, value?) {
        Ok(value) => Some(Field { place, value }),
        Err(rule) => {
            findings.problem(&place, rule);
            None
        }
    }
}

fn parse_source(key: &str, mut value: Zeroizing<String>) -> Result<PolicySource, Rule> {
    match key {
        TEXT if value.trim().is_empty() => Err(Rule::EmptyPolicy),
        TEXT => Ok(PolicySource::Text(std::mem::take(&mut *value))),
        FILE => match initdata::FileName::new(&value) {
            Ok(name) => Ok(PolicySource::File(name.as_str().to_owned())),
            Err(fault) => Err(Rule::PolicyFile(fault.to_string())),
        },
        _ => ResourceUri::parse_from(Origin::Measured, &value).map(PolicySource::Uri),
    }
}

/// A list, and the place of each item.
fn read_list(
    section: &mut Section<'_, '_>,
    key: &'static str,
    findings: &mut Findings,
) -> (Vec<String>, Vec<Place>) {
    let Some(Field { place, value }) = section.take_strings(key, None, findings) else {
        return (Vec::new(), Vec::new());
    };
    let (most, rule) = match key {
        ALLOW_TAGS => (MAX_ALLOW_TAGS, Rule::TooManyAllowTags),
        _ => (MAX_REFUSED, Rule::TooManyRefused),
    };
    if value.len() > most {
        findings.problem(&place, rule);
        return (Vec::new(), Vec::new());
    }
    let items = value.into_iter();
    let items = items.map(|mut item| (std::mem::take(&mut *item.value), item.place));
    items.unzip()
}
