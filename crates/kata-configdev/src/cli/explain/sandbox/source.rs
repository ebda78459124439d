//! Where the credentials of a registry come from, and who was asked for them.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::providers::{self, NotKept, Outcome};

/// Whose credentials a registry has.
#[derive(Clone, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// The document itself.
    Document {
        file: PathBuf,
        /// The line where the entry begins.
        line: Option<usize>,
        /// The entry's name as the document has it.
        entry: String,
    },
    /// An answer of a plugin.
    CredentialProvider { name: String, answer: Option<Answer> },
}

/// One plugin that was asked.
#[derive(Serialize)]
pub struct AskedPlugin {
    pub source: String,
    /// The repositories of the registry that it was asked about, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repositories: Option<String>,
    #[serde(flatten)]
    pub answer: Answer,
}

/// Where an answer is from, and how long it is believed without asking again.
#[derive(Clone, Copy, Serialize)]
pub struct Answer {
    /// `fresh`, `kept`, `none`, `none-before`, `agent` or `unneeded`.
    answer: &'static str,
    /// How much longer other sandboxes get the same answer; `None` where the next one asks again.
    expires_in_secs: Option<u64>,
    #[serde(skip)]
    not_kept: Option<NotKept>,
}

impl Source {
    pub fn text(&self) -> String {
        match self {
            Self::Document { file, line, entry } => {
                let line = line.map(|line| format!(":{line}")).unwrap_or_default();
                format!("{}{line}: entry \"{entry}\"", file.display())
            }
            Self::CredentialProvider { name, answer } => match answer {
                Some(answer) => format!("{name}, {}", answer.text()),
                None => name.clone(),
            },
        }
    }
}

impl AskedPlugin {
    pub fn text(&self) -> String {
        let about = self.repositories.as_ref();
        let about = about.map_or(String::new(), |about| format!(", about {about}"));
        format!("{}{about}: {}", self.source, self.answer.text())
    }
}

impl From<&providers::AskedPlugin> for AskedPlugin {
    fn from(asked: &providers::AskedPlugin) -> Self {
        Self {
            source: asked.source.clone(),
            repositories: asked.repositories.clone(),
            answer: asked.outcome.into(),
        }
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        let (answer, left) = match outcome {
            Outcome::Fresh { kept_for } => ("fresh", kept_for.ok()),
            Outcome::Kept { left } => ("kept", Some(left)),
            Outcome::Failed | Outcome::Hung => ("none", None),
            Outcome::LeftToAgent => ("agent", None),
            Outcome::FailedBefore { left } => ("none-before", Some(left)),
            Outcome::Unneeded => ("unneeded", None),
        };
        Self {
            answer,
            expires_in_secs: left.as_ref().map(Duration::as_secs),
            not_kept: match outcome {
                Outcome::Fresh { kept_for } => kept_for.err(),
                _ => None,
            },
        }
    }
}

impl Answer {
    fn text(self) -> String {
        match (self.answer, self.expires_in_secs) {
            ("fresh", Some(seconds)) => format!("fresh answer, kept for {}", span(seconds)),
            ("fresh", None) => match self.not_kept {
                Some(why) => format!("fresh answer, not kept: {why}"),
                None => "fresh answer, not kept".to_owned(),
            },
            ("kept", Some(seconds)) => {
                format!("answer kept from before, for {} more", span(seconds))
            }
            ("agent", _) => "the node agent asks it".to_owned(),
            ("none-before", Some(seconds)) => {
                format!("not asked for {} more, because it failed", span(seconds))
            }
            ("unneeded", _) => "not asked, because the document has credentials".to_owned(),
            _ => "no answer".to_owned(),
        }
    }
}

/// `seconds` as `6h`, `9m59s` or `0s`.
fn span(seconds: u64) -> String {
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let text: String = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (600, "10m"), (3605, "1h5s"), (43_200, "12h")]
        {
            assert_eq!(span(seconds), text);
        }
    }
}
