//! A value of a policy with its path and line, for messages that name the place.

use foreign_text::json::{JsonError, Kind, Object, Value};
use foreign_text::position::Lines;
use foreign_text::shown;

use crate::remark::Remark;

/// How much of a foreign name a message shows, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Why a text is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPolicy {
    /// It is no JSON, or not within the limits.
    #[error("the policy is not valid: {0}")]
    Json(#[from] JsonError),
    /// A value breaks the grammar of containers-policy.json(5).
    #[error("the policy is not valid: {path} (line {line}) {problem}")]
    Value {
        /// Where, such as `transports.docker."registry.corp"[0].keyPath`.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what to do; never a value.
        problem: String,
    },
    /// Scopes that no image can have, all of them: a wider scope, or the default, would decide for
    /// the images that they are meant for.
    #[error(
        "the policy is not valid: it has scopes that no image can have, so that a wider one would \
        decide: {}",
        listed(.0)
    )]
    Scopes(Vec<Remark>),
}

fn listed(scopes: &[Remark]) -> String {
    let scopes: Vec<_> = scopes.iter().map(ToString::to_string).collect();
    scopes.join("; and ")
}

/// A value and its place.
pub(crate) struct Node<'v, 't> {
    value: &'v Value<'t>,
    lines: &'v Lines,
    path: String,
}

/// The members of an object, none of which is unknown.
pub(crate) struct Members<'v, 't> {
    object: &'v Object<'t>,
    lines: &'v Lines,
    path: String,
    line: usize,
}

impl<'v, 't> Node<'v, 't> {
    pub(crate) fn root(value: &'v Value<'t>, lines: &'v Lines) -> Self {
        Self { value, lines, path: String::new() }
    }

    pub(crate) fn path(&self) -> &str {
        if self.path.is_empty() { "its root" } else { &self.path }
    }

    pub(crate) fn line(&self) -> usize {
        self.lines.at(self.value.offset)
    }

    pub(crate) fn refuse(&self, problem: impl Into<String>) -> InvalidPolicy {
        InvalidPolicy::Value {
            path: self.path().to_owned(),
            line: self.line(),
            problem: problem.into(),
        }
    }

    pub(crate) fn remark(&self, words: impl Into<String>) -> Remark {
        Remark { path: self.path().to_owned(), line: self.line(), words: words.into() }
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
    pub(crate) fn items(&self) -> Result<Vec<Node<'v, 't>>, InvalidPolicy> {
        let values = match &self.value.kind {
            Kind::Null => &[][..],
            Kind::Array(values) => values,
            _ => return Err(self.refuse("is not a list")),
        };
        let node = |(index, value)| Node {
            value,
            lines: self.lines,
            path: format!("{}[{index}]", self.path),
        };
        Ok(values.iter().enumerate().map(node).collect())
    }

    /// The members of an object that may have any names, with these.
    pub(crate) fn named(&self) -> Result<Vec<(&'v str, Node<'v, 't>)>, InvalidPolicy> {
        let object = self.value.object();
        let object = object.ok_or_else(|| self.refuse("is not an object"))?;
        let node = |(name, value): (&'v str, &'v Value<'t>)| {
            let path = join(&self.path, name);
            let lines = self.lines;
            (name, Node { value, lines, path })
        };
        Ok(object.members().map(node).collect())
    }

    /// The members of an object that may have these names only.
    pub(crate) fn members(&self, known: &[&str]) -> Result<Members<'v, 't>, InvalidPolicy> {
        for (name, node) in self.named()? {
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(node.refuse(format!("is not known; known here: {known}")));
            }
        }
        let object = self.value.object();
        Ok(Members {
            object: object.ok_or_else(|| self.refuse("is not an object"))?,
            lines: self.lines,
            path: self.path.clone(),
            line: self.line(),
        })
    }

    /// The text of one member, whatever else there is.
    pub(crate) fn peek(&self, name: &str) -> Option<&'v str> {
        self.value.object()?.last(name)?.text()
    }
}

impl<'v, 't> Members<'v, 't> {
    pub(crate) fn get(&self, name: &str) -> Option<Node<'v, 't>> {
        let value = self.object.last(name)?;
        Some(Node { value, lines: self.lines, path: join(&self.path, name) })
    }

    /// A member that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<Node<'v, 't>, InvalidPolicy> {
        self.get(name).ok_or_else(|| self.refuse(format!("has no {name}")))
    }

    pub(crate) fn refuse(&self, problem: impl Into<String>) -> InvalidPolicy {
        InvalidPolicy::Value {
            path: if self.path.is_empty() { "its root".to_owned() } else { self.path.clone() },
            line: self.line,
            problem: problem.into(),
        }
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
