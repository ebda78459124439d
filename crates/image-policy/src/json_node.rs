//! A value of a policy with its path and line, for messages that name the place.

use foreign_text::json::{Kind, Value};
use foreign_text::position::Lines;
use foreign_text::shown;

use crate::remark::Remark;

/// How much of a foreign name a message shows, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Why a text is no policy: what is wrong and what to do; never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policy is not valid: {0}")]
pub struct InvalidPolicy(pub(crate) String);

/// A value and its place.
pub(crate) struct Node<'v, 't> {
    value: &'v Value<'t>,
    lines: &'v Lines,
    path: String,
}

impl<'v, 't> Node<'v, 't> {
    pub(crate) fn root(value: &'v Value<'t>, lines: &'v Lines) -> Self {
        Self { value, lines, path: String::new() }
    }

    /// A value in this one, whose path goes on like this.
    fn below(&self, value: &'v Value<'t>, path: String) -> Self {
        Self { value, lines: self.lines, path }
    }

    pub(crate) fn refuse(&self, problem: impl Into<String>) -> InvalidPolicy {
        InvalidPolicy(self.remark(problem).to_string())
    }

    pub(crate) fn remark(&self, words: impl Into<String>) -> Remark {
        let path = if self.path.is_empty() { "its root" } else { &self.path };
        let line = self.lines.at(self.value.offset);
        Remark { path: path.to_owned(), line, words: words.into() }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    pub(crate) fn text(&self) -> Result<&'v str, InvalidPolicy> {
        let text = self.value.text();
        text.ok_or_else(|| self.refuse("is not a text"))
    }

    /// A text, or nothing where `null` stands.
    pub(crate) fn text_or_null(&self) -> Result<Option<&'v str>, InvalidPolicy> {
        if self.is_null() {
            return Ok(None);
        }
        self.text().map(Some)
    }

    /// The values of an array; none where `null` stands.
    pub(crate) fn items(&self) -> Result<Vec<Self>, InvalidPolicy> {
        let values = match &self.value.kind {
            Kind::Null => &[][..],
            Kind::Array(values) => values,
            _ => return Err(self.refuse("is not a list")),
        };
        let values = values.iter().enumerate();
        let nodes = values.map(|(at, value)| self.below(value, format!("{}[{at}]", self.path)));
        Ok(nodes.collect())
    }

    /// The members of an object that may have any names, with these.
    pub(crate) fn named(&self) -> Result<Vec<(&'v str, Self)>, InvalidPolicy> {
        let object = self.value.object();
        let object = object.ok_or_else(|| self.refuse("is not an object"))?;
        let members = object.members();
        let nodes = members.map(|(name, value)| (name, self.below(value, join(&self.path, name))));
        Ok(nodes.collect())
    }

    /// Itself, as an object that has no members but these.
    pub(crate) fn members(&self, known: &[&str]) -> Result<&Self, InvalidPolicy> {
        for (name, node) in self.named()? {
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(node.refuse(format!("is not known; known here: {known}")));
            }
        }
        Ok(self)
    }

    /// A member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        let value = self.value.object()?.last(name)?;
        Some(self.below(value, join(&self.path, name)))
    }

    /// A member that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<Self, InvalidPolicy> {
        self.get(name).ok_or_else(|| self.refuse(format!("has no {name}")))
    }

    /// The text of one member, whatever else there is.
    pub(crate) fn peek(&self, name: &str) -> Option<&'v str> {
        self.value.object()?.last(name)?.text()
    }
}

/// The path of a member: names that are no plain words stand in quotes.
fn join(path: &str, name: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let dot = if path.is_empty() { "" } else { "." };
    if !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.chars().all(is_word) {
        format!("{path}{dot}{name}")
    } else {
        format!("{path}{dot}{}", shown(name).up_to(MAX_NAME_CHARS).quoted())
    }
}
