//! Parts of messages, each in one line.

use std::error::Error as _;
use std::sync::Arc;

use super::Error;

/// What each source had to say.
pub fn each(errors: &[(String, Arc<Error>)]) -> String {
    let said = errors.iter().map(|(source, error)| format!("{source}: {}", chain(error)));
    said.collect::<Vec<_>>().join("; ")
}

/// Why, or where that is said.
pub fn told(why: Option<&str>) -> String {
    match why {
        Some(why) => format!(": {why}"),
        None => "; `imagepuller status` inside says why".to_owned(),
    }
}

/// How many problems a message lists.
const MAX_SHOWN_PROBLEMS: usize = 4;

/// The first problems, each behind a semicolon.
pub fn some(problems: &[String]) -> String {
    let shown = problems.iter().take(MAX_SHOWN_PROBLEMS);
    let mut text: String = shown.map(|problem| format!("; {problem}")).collect();
    if problems.len() > MAX_SHOWN_PROBLEMS {
        text.push_str(&format!("; and {} more", problems.len() - MAX_SHOWN_PROBLEMS));
    }
    text
}

/// The whole chain of an error in one line.
pub fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        // Some libraries repeat the cause in their own message.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = error.source();
    }
    text.replace(['\n', '\r'], " ")
}
