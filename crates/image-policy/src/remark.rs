//! What a policy says and probably does not mean.

use std::fmt;

/// A place of a policy, and what it does that its author may not expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Where, such as `transports.docker."registry.corp"[0]`.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What it does, and what to write instead.
    pub words: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {}) {}", self.path, self.line, self.words)
    }
}
