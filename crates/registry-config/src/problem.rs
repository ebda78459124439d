//! What is wrong with a document, and what is legal in it but probably not meant.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use foreign_text::toml::Field;
use thiserror::Error;

use crate::limits::MAX_PROBLEMS;
use crate::{Effect, RegistryName, Rule};

/// A rule that a document breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{rule}", place(*.line, key))]
#[non_exhaustive]
pub struct Problem {
    /// The line, from 1; 0 where the document as a whole is concerned.
    pub line: usize,
    /// The dotted key, such as `registries."registry.corp".auth`, with `, item 2` behind it for an
    /// item of its list; empty where no key is concerned.
    pub key: String,
    /// What the document should have done.
    pub rule: Rule,
}

/// Something legal that does less, or gives away more, than a reader of the document would expect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{effect}", place(*.line, key))]
#[non_exhaustive]
pub struct Warning {
    /// The line, from 1.
    pub line: usize,
    /// The dotted key.
    pub key: String,
    /// What happens.
    pub effect: Effect,
}

/// Everything that is wrong with a document, by line. Shown one problem per line; never shows a
/// value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    problems: Vec<Problem>,
    unlisted: usize,
}

impl Problems {
    /// The problems by line; at most [`MAX_PROBLEMS`].
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// How many more there are.
    pub fn unlisted(&self) -> usize {
        self.unlisted
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        if self.unlisted > 0 {
            write!(f, "\nand {} more", self.unlisted)?;
        }
        Ok(())
    }
}

/// Where a finding is, as its first words.
fn place(line: usize, key: &str) -> String {
    let line = if line == 0 { String::new() } else { format!("line {line}: ") };
    let separator = if key.is_empty() { "" } else { ": " };
    format!("{line}{key}{separator}")
}

/// Whose word a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The owner's: it is measured, so everyone who verifies the guest knows it, and it may be
    /// believed.
    Measured,
    /// The host's.
    Host,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "the measured document",
            Self::Host => "the node's document",
        })
    }
}

/// A place in the document that findings can be about; the default is the document as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) key: String,
}

impl From<&Self> for Place {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}

impl From<&Field<'_, '_>> for Place {
    fn from(field: &Field<'_, '_>) -> Self {
        Self { line: field.line, key: field.path.clone() }
    }
}

/// Collects the findings about a document.
#[derive(Debug)]
pub(crate) struct Findings {
    /// Whose word the document is.
    pub(crate) origin: Origin,
    problems: RefCell<Problems>,
    warnings: RefCell<Vec<Warning>>,
    /// Where each entry of a registry begins.
    pub(crate) lines: RefCell<BTreeMap<RegistryName, usize>>,
}

impl Findings {
    pub(crate) fn of(origin: Origin) -> Self {
        let (problems, warnings) = (RefCell::default(), RefCell::default());
        Self { origin, problems, warnings, lines: RefCell::default() }
    }

    pub(crate) fn problem(&self, at: impl Into<Place>, rule: impl Into<Rule>) {
        let Problems { problems, unlisted } = &mut *self.problems.borrow_mut();
        if problems.len() == MAX_PROBLEMS {
            *unlisted += 1;
            return;
        }
        let Place { line, key } = at.into();
        problems.push(Problem { line, key, rule: rule.into() });
    }

    /// What was read at a place; what is wrong with it is reported.
    pub(crate) fn kept<T>(
        &self,
        at: impl Into<Place>,
        read: Result<T, impl Into<Rule>>,
    ) -> Option<T> {
        read.map_err(|rule| self.problem(at, rule)).ok()
    }

    /// The limits on entries and variables bound the number of warnings.
    pub(crate) fn warning(&self, at: impl Into<Place>, effect: Effect) {
        let Place { line, key } = at.into();
        self.warnings.borrow_mut().push(Warning { line, key, effect });
    }

    /// The warnings, if there was no problem; each by line.
    pub(crate) fn into_result(self) -> Result<Vec<Warning>, Problems> {
        let mut problems = self.problems.into_inner();
        if problems.problems.is_empty() {
            let mut warnings = self.warnings.into_inner();
            warnings.sort_by_key(|warning| warning.line);
            return Ok(warnings);
        }
        problems.problems.sort_by_key(|problem| problem.line);
        Err(problems)
    }
}
