//! What a program says of a failure, or of something that it found: one shape for each, and one
//! way to print it.
//!
//! [`Error`] ends some work: a sentence, what to do about it, what caused it, and a class by which
//! the program goes on (its exit code, say). [`Finding`] is one line of a report.
//!
//! Not here: what is safe to show. Who quotes foreign text in a message has made it so before
//! (`foreign-text`).

use std::error::Error as StdError;
use std::fmt;

use serde::Serialize;

/// Why some work failed.
///
/// `Class` is the program's own, as coarse as what it does about the failure.
#[derive(Debug)]
pub struct Error<Class> {
    text: String,
    remedy: &'static str,
    cause: Option<Box<dyn StdError + Send + Sync>>,
    class: Class,
}

impl<Class> Error<Class> {
    /// A failure, as `text` says that it is: a fragment that follows "failed to".
    pub fn new(class: Class, text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: "", cause: None, class }
    }

    /// The same, because of `cause`.
    #[must_use]
    pub fn because(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    /// The same, with what to do about it.
    #[must_use]
    pub fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }

    /// What the program does about it.
    pub fn class(&self) -> &Class {
        &self.class
    }

    /// The error, all its causes and the remedy: `TEXT: CAUSE: CAUSE; REMEDY`.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut line = self.text.clone();
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn StdError);
        while let Some(error) = cause {
            line = format!("{line}: {error}");
            cause = error.source();
        }
        match self.remedy {
            "" => line,
            remedy => format!("{line}; {remedy}"),
        }
    }
}

impl<Class> fmt::Display for Error<Class> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<Class: fmt::Debug> StdError for Error<Class> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Not looked at; the text says why.
    Skipped,
    /// Worth knowing, or probably not meant.
    Warning,
    /// Something does not work, or is open that must be closed.
    Error,
}

/// One line of a report. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What kind of finding it is, which stays the same when its words change.
    pub id: &'static str,
    /// The file, option or part that it is about; empty where it is the whole.
    pub place: String,
    /// What was found, as a fragment without a full stop.
    pub text: String,
    /// What to do; empty where there is nothing to do.
    pub remedy: String,
}

impl Finding {
    /// One JSON object, on one line. Later versions may add keys.
    #[must_use]
    pub fn json(&self) -> String {
        // Strings and unit variants alone: there is nothing in it that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// `SEVERITY: PLACE: TEXT; REMEDY`, on one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.severity {
            Severity::Ok => "ok",
            Severity::Skipped => "skipped",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })?;
        for (before, part) in [(": ", &self.place), (": ", &self.text), ("; ", &self.remedy)] {
            if !part.is_empty() {
                write!(f, "{before}{part}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_error_is_one_line_with_its_causes_and_the_remedy() {
        let error = Error::new(7, "list the disks");
        assert_eq!((error.chain().as_str(), *error.class()), ("list the disks", 7));
        let cause = Error::new(0, "open /dev").because(io::Error::from_raw_os_error(13));
        let error = error.because(cause).remedy("mount it");
        let expected = "list the disks: open /dev: Permission denied (os error 13); mount it";
        assert_eq!(error.chain(), expected);
        assert_eq!(error.to_string(), "list the disks");
    }

    #[test]
    fn a_finding_is_one_line_and_one_object() {
        let mut finding = Finding {
            severity: Severity::Error,
            id: "agent",
            place: "/usr/bin/agent".into(),
            text: "there is no agent".into(),
            remedy: "name it".into(),
        };
        assert_eq!(finding.to_string(), "error: /usr/bin/agent: there is no agent; name it");
        let object = r#"{"severity":"error","id":"agent","place":"/usr/bin/agent","text":"there is no agent","remedy":"name it"}"#;
        assert_eq!(finding.json(), object);
        finding.place.clear();
        finding.remedy.clear();
        assert_eq!(finding.to_string(), "error: there is no agent");
    }
}
