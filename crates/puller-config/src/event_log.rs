//! `event-log` of the measured document: whether what a guest pulls has to be in the event log of
//! its TEE.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::Rule;

/// The key.
pub(crate) const KEY: &str = "event-log";

/// Whether pulls have to be in the guest's event log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventLog {
    /// A pull that cannot be recorded fails.
    Required,
    /// A guest without an event log pulls without a record.
    #[default]
    IfThere,
    /// Nothing is recorded.
    Never,
}

impl EventLog {
    const ALL: [Self; 3] = [Self::Required, Self::IfThere, Self::Never];

    pub(crate) fn parse(text: &str) -> Result<Self, Rule> {
        let found = Self::ALL.into_iter().find(|one| one.as_str() == text);
        found.ok_or(Rule::EventLog)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::IfThere => "if-there",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for EventLog {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
