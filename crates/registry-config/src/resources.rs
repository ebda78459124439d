//! `[resources]` of the measured document: where the guest gets the secrets that documents and
//! images refer to.

use crate::problem::Findings;
use crate::section::{Field, Section};
use crate::{ResourceSource, Rule};

/// The keys of the table, for suggestions.
const KEYS: [&str; 2] = ["source", "unwrap"];

/// Where the guest asks for resources. The default is the CDH that the service knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The one source of all secrets; `None` leaves it to the service.
    pub source: Option<ResourceSource>,
    /// Whether it unwraps the keys of layers, which then never come to the puller.
    pub unwrap: bool,
}

impl Resources {
    /// Reads the table to its end; what is broken is reported and left at its default.
    pub(crate) fn read(mut section: Section<'_, '_>, findings: &mut Findings) -> Self {
        let source = section.take_string("source", findings);
        let source = source.and_then(|Field { place, value }| {
            let source = ResourceSource::parse(&value?);
            source.map_err(|rule| findings.problem(&place, rule)).ok()
        });
        let unwrap = section.take_bool("unwrap", findings);
        if let (Some(Field { place, value: true }), Some(ResourceSource::Files(_))) =
            (&unwrap, &source)
        {
            findings.problem(place, Rule::UnwrapByFile);
        }
        section.refuse_rest(&KEYS, &Rule::UnknownKey { suggestion: None }, findings);
        Self { source, unwrap: unwrap.is_some_and(|field| field.value) }
    }
}
