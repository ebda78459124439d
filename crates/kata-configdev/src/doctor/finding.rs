//! What a check says.

mod ids;

use std::fmt;
use std::path::Path;

use foreign_text::{one_line, shown};
use serde::Serialize;

pub use self::ids::IDS;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Sandboxes do not start, or start without what they should have.
    Fault,
    /// Probably not meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing that was found. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of finding it is, which stays the same when its words change.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The file or directory on the node, safe to show.
    pub path: String,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// What it is, what that does, and the remedy; on one line and safe to show.
    pub message: String,
}

impl Finding {
    /// A finding about the file `path` as a whole.
    pub fn new(
        id: &'static str,
        severity: Severity,
        path: impl AsRef<Path>,
        message: impl AsRef<str>,
    ) -> Self {
        debug_assert!(IDS.contains(&id), "{id} is not listed");
        let path = path.as_ref().as_os_str().as_encoded_bytes();
        Self {
            id,
            severity,
            path: shown(path).to_string(),
            line: 0,
            message: one_line(message.as_ref()).to_string(),
        }
    }

    /// The same, about a line.
    #[must_use]
    pub fn at_line(self, line: usize) -> Self {
        Self { line, ..self }
    }
}

/// `PATH:LINE: SEVERITY ID: MESSAGE`, on one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        let severity = self.severity.name();
        write!(f, ": {severity} {}: {}", self.id, self.message)
    }
}

impl Severity {
    /// Its name, as it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl From<node_installer::kata::Finding> for Finding {
    fn from(found: node_installer::kata::Finding) -> Self {
        debug_assert!(IDS.contains(&found.id), "{} is not listed", found.id);
        Self {
            id: found.id,
            severity: match found.is_fault {
                true => Severity::Fault,
                false => Severity::Warning,
            },
            path: found.path,
            line: found.line,
            message: one_line(&found.message).to_string(),
        }
    }
}
