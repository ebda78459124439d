//! `[resources]` of the measured document: where the guest gets the secrets that documents and
//! images refer to.

use crate::section::Section;
use crate::{ResourceSource, Rule};

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
    pub(crate) fn read(mut section: Section<'_, '_>) -> Self {
        let source = section.read("source", |field| Ok(ResourceSource::parse(field.text()?)?));
        let unwrap = section.flag("unwrap");
        let is_file = unwrap && matches!(source, Some(ResourceSource::Files(_)));
        section.needs("unwrap", !is_file, Rule::UnwrapByFile);
        section.refuse_rest(None);
        Self { source, unwrap }
    }
}
