//! What is wrong with a text that should be JSON.

use crate::position::Position;

/// A broken rule, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule} (line {line}, column {column})")]
pub struct JsonError {
    /// The rule.
    pub rule: JsonRule,
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
}

/// What JSON, or the caller, asks of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonRule {
    /// Not JSON, in this project's own words.
    #[error("{0}")]
    Syntax(&'static str),
    /// Another value where the caller needs an object.
    #[error("it is not an object")]
    NotObject,
    /// More bytes than the caller reads.
    #[error("it has {found} bytes, more than {limit}")]
    TooLong {
        /// The most that is read.
        limit: usize,
        /// How many there are.
        found: usize,
    },
    /// More values than the caller reads.
    #[error("it has more than {0} values")]
    TooManyValues(usize),
    /// More levels than the caller reads.
    #[error("it has more than {0} levels of brackets")]
    TooDeep(usize),
    /// Two members of one name; the name, quoted and safe to show.
    #[error("the member {0} is there twice")]
    Twice(String),
}

impl JsonRule {
    pub(super) fn at(self, text: &[u8], offset: usize) -> JsonError {
        let Position { line, column } = Position::of(text, offset);
        JsonError { rule: self, line, column }
    }
}
