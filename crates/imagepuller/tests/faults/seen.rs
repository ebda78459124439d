//! What a pull came to, against what its row says.

use std::collections::BTreeSet;

use fault_registry::{Request, What};
use imagepuller::error::{Error, chain};

use crate::row::{Other, Outcome, Row, TOKEN};
use crate::support::PASSWORD;

/// Ends a check with words where something does not hold.
macro_rules! ensure {
    ($holds:expr, $($words:tt)*) => {
        if !$holds {
            return Err(format!($($words)*));
        }
    };
}

pub(crate) use ensure;

/// What a pull came to.
pub struct Seen {
    pub error: Option<Error>,
    pub log: String,
}

impl Seen {
    pub fn check_outcome(&self, row: &Row) -> Result<(), String> {
        match (&row.outcome, &self.error) {
            (Outcome::Harmless, _) => Ok(()),
            (Outcome::Pulled, None) => {
                ensure!(self.log.contains("mounted"), "nothing was logged");
                Ok(())
            }
            (Outcome::Pulled, Some(error)) => Err(format!("was refused: {}", chain(error))),
            (Outcome::Refused { .. }, None) => Err("was pulled".to_owned()),
            (Outcome::Refused { kind, words }, Some(error)) => {
                let text = chain(error);
                ensure!(error.kind() == *kind, "{:?} instead of {kind:?}: {text}", error.kind());
                for word in words {
                    ensure!(text.contains(word), "{word:?} is missing in: {text}");
                }
                ensure!(!text.contains('\n'), "the error has several lines: {text}");
                ensure!(text.len() < 2000, "the error is too long: {text}");
                check_repetition(&text)
            }
        }
    }

    pub fn check_secrets(&self) -> Result<(), String> {
        let error = self.error.as_ref().map(|error| format!("{error:?} {}", chain(error)));
        let error = error.unwrap_or_default();
        for secret in [PASSWORD, TOKEN] {
            ensure!(!error.contains(secret), "a secret in the error: {error}");
            ensure!(!self.log.contains(secret), "a secret in the log: {}", self.log);
        }
        Ok(())
    }
}

/// Whether a registry was asked as the row says.
pub fn check_requests(row: &Row, requests: &[Request]) -> Result<(), String> {
    for (what, expected) in &row.asks {
        let count = asked(requests, what).count();
        ensure!(
            expected.contains(&count),
            "{what:?} was asked for {count} times instead of {expected:?}"
        );
    }
    if let Some(expected) = &row.ranges {
        let start = |request: &Request| match request.header("range") {
            None => Some(0),
            Some(range) => range.strip_prefix("bytes=")?.split('-').next()?.parse().ok(),
        };
        let starts: Vec<Option<usize>> = asked(requests, &What::Layer(0)).map(start).collect();
        let right: Vec<_> = expected.iter().copied().map(Some).collect();
        ensure!(starts == right, "ranges from {starts:?} instead of {right:?}");
    }
    Ok(())
}

fn asked<'a>(requests: &'a [Request], what: &What) -> impl Iterator<Item = &'a Request> {
    requests.iter().filter(move |request| request.what == *what && !request.is_challenged)
}

/// The other registry never sees credentials unless they are its own.
pub fn check_other(other: &Other, requests: &[Request]) -> Result<(), String> {
    let count = requests.len();
    ensure!(other.asks.contains(&count), "the other registry was asked {count} times");
    let is_secret = |text: &str| text.contains(PASSWORD) || text.contains(TOKEN);
    let leaked = requests.iter().any(|request| {
        request.header("authorization").is_some()
            || is_secret(&request.target())
            || is_secret(&request.body)
    });
    ensure!(other.is_mirrored || !leaked, "the other registry was sent credentials");
    Ok(())
}

/// An error says everything once.
fn check_repetition(text: &str) -> Result<(), String> {
    let mut parts = BTreeSet::new();
    for part in text.split("; ").filter(|part| part.len() > 20) {
        ensure!(parts.insert(part), "{part:?} is said twice: {text}");
    }
    Ok(())
}
