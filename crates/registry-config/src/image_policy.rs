//! `[image-policy]` of the measured document: where the policy of signatures is, and what holds
//! beside it.
//!
//! Scopes, digests and policies are not this crate's to read. They are kept as they were written,
//! and the room `image-policy` gives them their meaning, for the guest and for who checks a
//! document.

use crate::limits::{MAX_ALLOW_TAGS, MAX_REFUSED};
use crate::problem::{Findings, Origin, Place, Problems};
use crate::section::Section;
use crate::{ResourceUri, Rule};

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
    /// A section that says where the policy is, and has no place in a text yet.
    #[must_use]
    pub fn new(source: PolicySource) -> Self {
        let (allow_tags, refuse) = (Vec::new(), Vec::new());
        let places =
            Places { source: Place::default(), allow_tags: Vec::new(), refuse: Vec::new() };
        Self { source, is_of_cdh: false, allow_tags, refuse, places }
    }

    /// Reads the section; `None` if it has no policy, which is reported.
    pub(crate) fn read(section: &mut Section<'_, '_>) -> Option<Self> {
        let mut list = |key, most, rule| {
            let items = section.take(key).map(|field| section.texts(&field)).unwrap_or_default();
            section.needs(key, items.len() <= most, rule);
            items.into_iter().map(|(place, text)| (text.to_owned(), place)).unzip()
        };
        let (allow_tags, allow_places) = list("allow-tags", MAX_ALLOW_TAGS, Rule::TooManyAllowTags);
        let (refuse, refuse_places) = list("refuse", MAX_REFUSED, Rule::TooManyRefused);
        let sources = ["text", "file", "uri"].map(|key| (key, section.text(key)));
        let mut written = sources.into_iter().filter(|(key, _)| section.has(key));
        let first = written.next();
        section.needs("", first.is_some(), Rule::NoPolicySource);
        for (second, _) in written {
            section.problem(second, Rule::SecondPolicySource);
        }
        let source = first.and_then(|(key, text)| section.kept(key, parse_source(key, text?)));
        section.refuse_rest(None);
        let place = section.at(first?.0)?;
        Some(Self {
            source: source?,
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
        let findings = Findings::of(Origin::Measured);
        for (part, words) in faults {
            let place = match part {
                PolicyPart::Source => Some(&self.places.source),
                PolicyPart::AllowTag(index) => self.places.allow_tags.get(index),
                PolicyPart::Refuse(index) => self.places.refuse.get(index),
            };
            let place = place.unwrap_or(&self.places.source);
            findings.problem(place, Rule::ImagePolicy(words));
        }
        findings.into_result().err().unwrap_or_default()
    }

    /// The dotted key that says where the policy is.
    pub fn key(&self) -> &str {
        &self.places.source.key
    }
}

fn parse_source(key: &str, value: &str) -> Result<PolicySource, Rule> {
    match key {
        "text" if value.trim().is_empty() => Err(Rule::EmptyPolicy),
        "text" => Ok(PolicySource::Text(value.to_owned())),
        "file" => match initdata::FileName::new(value) {
            Ok(name) => Ok(PolicySource::File(name.as_str().to_owned())),
            Err(fault) => Err(Rule::PolicyFile(fault.to_string())),
        },
        _ => ResourceUri::parse_from(Origin::Measured, value).map(PolicySource::Uri),
    }
}
