//! Values of a settings file with the line that each stands on.

use std::path::{Component, PathBuf};

use foreign_text::position::line_of;
use toml::Spanned;

/// A value and the line that it stands on.
#[derive(Debug)]
pub struct AtLine<T> {
    pub line: usize,
    pub value: T,
}

/// A line and the rule that is broken there.
pub type Broken = (usize, String);

impl<T> AtLine<T> {
    /// For a value that need not be there.
    pub fn some(self) -> AtLine<Option<T>> {
        AtLine { line: self.line, value: Some(self.value) }
    }
}

impl AtLine<PathBuf> {
    /// Requires an absolute path of the value of `key`.
    pub fn absolute(self, key: &str) -> Result<Self, Broken> {
        if self.value.is_absolute() {
            Ok(self)
        } else {
            Err((self.line, format!("{key}: not an absolute path")))
        }
    }

    /// Requires a path that says where it leads: absolute and without `..`.
    pub fn plain(self, key: &str) -> Result<Self, Broken> {
        let path = self.absolute(key)?;
        let mut parts = path.value.components();
        if parts.any(|part| part == Component::ParentDir) {
            return Err((path.line, format!("{key}: a directory has \"..\" in it")));
        }
        Ok(path)
    }
}

/// The text that values are placed in.
#[derive(Clone, Copy)]
pub struct Lines<'a>(pub &'a [u8]);

impl Lines<'_> {
    /// The value with its line.
    pub fn at<T>(self, value: Spanned<T>) -> AtLine<T> {
        AtLine { line: line_of(self.0, value.span().start), value: value.into_inner() }
    }
}
