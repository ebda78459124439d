//! What is wrong with the owner's configuration, or worth knowing about it, and where.

use std::fmt;

use foreign_text::toml::{Field, Table, WrongType};

/// How many problems and how many notes are kept; hostile files have very many.
pub const MAX_FINDINGS: usize = 100;

/// Where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line of the file, from 1; 0 where no line is concerned.
    pub line: usize,
    /// The dotted key, or the kernel parameter, safe to show; empty where no key is concerned.
    pub key: String,
}

impl Place {
    pub(crate) fn of_file() -> Self {
        Self::default()
    }

    pub(crate) fn line(line: usize) -> Self {
        let key = String::new();
        Self { line, key }
    }

    pub(crate) fn parameter(name: &str) -> Self {
        let key = format!("kernel parameter {name}");
        Self { line: 0, key }
    }
}

impl From<&Field<'_, '_>> for Place {
    fn from(field: &Field<'_, '_>) -> Self {
        let (line, key) = (field.line, field.path.clone());
        Self { line, key }
    }
}

impl From<&Table<'_, '_>> for Place {
    fn from(table: &Table<'_, '_>) -> Self {
        let (line, key) = (table.line, table.path.clone());
        Self { line, key }
    }
}

/// A problem or a note, as a fragment without a full stop. It shows no value but hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What is wrong and what to do, or what follows.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: Place { line, key }, text } = self;
        if *line > 0 {
            write!(f, "line {line}: ")?;
        }
        if !key.is_empty() {
            write!(f, "{key}: ")?;
        }
        f.write_str(text)
    }
}

/// A line for each.
#[must_use]
pub fn lines(findings: &[Finding]) -> String {
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Everything that was found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    problems: Vec<Finding>,
    pub(crate) notes: Vec<Finding>,
}

impl Findings {
    pub(crate) fn problem(&mut self, place: impl Into<Place>, text: impl Into<String>) {
        push(&mut self.problems, place.into(), text.into());
    }

    pub(crate) fn note(&mut self, place: impl Into<Place>, text: impl Into<String>) {
        push(&mut self.notes, place.into(), text.into());
    }

    /// The value of the right type; another one is a problem.
    pub(crate) fn typed<T>(
        &mut self,
        place: impl Into<Place>,
        value: Result<T, WrongType>,
    ) -> Option<T> {
        let value = value.map_err(|wrong| self.problem(place, wrong.to_string()));
        value.ok()
    }

    /// The problems, if there are some.
    pub(crate) fn checked(&mut self) -> Result<(), Vec<Finding>> {
        match self.problems.is_empty() {
            true => Ok(()),
            false => Err(std::mem::take(&mut self.problems)),
        }
    }
}

fn push(list: &mut Vec<Finding>, place: Place, text: String) {
    if list.len() < MAX_FINDINGS {
        list.push(Finding { place, text });
    }
}
