//! A path on the node.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The longest path: what the kernel accepts, without its final zero byte.
const MAX_PATH_BYTES: usize = 4095;

/// An absolute path on the node: at least one component, none of them `.` or `..`, no control
/// characters, and none that mean something in a pattern.
///
/// In the container the same file is below [`Options::host`](crate::Options::host).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPath(String);

impl HostPath {
    /// Parses `text`; the error is the broken rule.
    ///
    /// # Errors
    ///
    /// The rule that the text breaks, in words.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(relative) = text.strip_prefix('/') else {
            return Err("not an absolute path");
        };
        if text.len() > MAX_PATH_BYTES {
            return Err("longer than any path");
        }
        if text.chars().any(char::is_control) {
            return Err("has control characters");
        }
        // The wrapper's settings name the document by a pattern.
        if text.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return Err("has a character that means something in a pattern");
        }
        let parts: Vec<&str> = relative.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| [".", ".."].contains(part)) {
            return Err("has \".\" or \"..\" in it");
        }
        if parts.is_empty() {
            return Err("is the root directory");
        }
        Ok(Self(format!("/{}", parts.join("/"))))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file or directory `name` in this directory. `name` is a single component and a constant
    /// or checked before.
    pub(crate) fn join(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.0))
    }

    /// The directory, `None` for one in the root, and the name in it.
    pub(crate) fn split(&self) -> (Option<Self>, &str) {
        match self.0.rsplit_once('/') {
            Some(("", name)) => (None, name),
            Some((directory, name)) => (Some(Self(directory.to_owned())), name),
            None => (None, &self.0),
        }
    }

    /// This directory and those above it, the root directory excepted, the uppermost first.
    pub(crate) fn chain(&self) -> Vec<Self> {
        let mut chain = vec![self.clone()];
        let mut above = self.split().0;
        while let Some(directory) = above {
            above = directory.split().0;
            chain.push(directory);
        }
        chain.reverse();
        chain
    }

    /// The path relative to the node's root.
    pub(crate) fn relative(&self) -> &Path {
        Path::new(self.0.trim_start_matches('/'))
    }
}

impl TryFrom<String> for HostPath {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<HostPath> for String {
    fn from(path: HostPath) -> Self {
        path.0
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_absolute_paths_are_accepted() {
        for (text, path) in [("/a", "/a"), ("/a//b/", "/a/b"), ("/a/..b", "/a/..b")] {
            assert_eq!(HostPath::parse(text).unwrap().as_str(), path);
        }
        let long = format!("/{}", "a".repeat(MAX_PATH_BYTES));
        for text in ["", "a", "a/b", "/", "//", "/.", "/a/../b", "/a/./b", "/a\nb", &long] {
            HostPath::parse(text).unwrap_err();
        }
    }

    #[test]
    fn a_path_divides_into_its_directories() {
        let path = HostPath::parse("/a/b/c").unwrap();
        let chain: Vec<String> = path.chain().into_iter().map(String::from).collect();
        assert_eq!(chain, ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(path.relative(), Path::new("a/b/c"));
        assert_eq!(path.join("d").as_str(), "/a/b/c/d");
        assert_eq!(HostPath::parse("/a").unwrap().split(), (None, "a"));
    }
}
