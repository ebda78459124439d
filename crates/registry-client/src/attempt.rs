//! Failures that were met more than once, and which are worth meeting again.

use reqwest::StatusCode;

/// How many kinds of failures are told, half of them the first and half the last.
const MAX_SHOWN: usize = 8;

/// A failure, and how often it was the same.
#[derive(Debug)]
pub struct Attempt {
    /// The failure in words.
    pub text: String,
    /// [`Error::is_about_config`](crate::Error::is_about_config).
    pub is_about_config: bool,
    /// How often.
    pub count: u32,
}

/// Each failure once, with its count where there was another one.
pub(crate) fn shown(attempts: &[Attempt]) -> String {
    let total: u32 = attempts.iter().map(|attempt| attempt.count).sum();
    if let [Attempt { text, .. }] = attempts {
        return format!("{total} attempts: {text}");
    }
    let failures: Vec<_> = kinds(attempts).iter().map(|kind| one(kind)).collect();
    if failures.len() <= MAX_SHOWN {
        return format!("{total} attempts: {}", failures.join("; "));
    }
    let (first, rest) = failures.split_at(MAX_SHOWN / 2);
    let (left_out, last) = rest.split_at(rest.len() - MAX_SHOWN / 2);
    format!(
        "{total} attempts: {}; and {} failures more; at last {}",
        first.join("; "),
        left_out.len(),
        last.join("; ")
    )
}

/// Failures that are the same but for numbers, in the order of the first of each kind: a server
/// that sends ten bytes at a time fails fifty times, each at another place.
fn kinds(attempts: &[Attempt]) -> Vec<Vec<&Attempt>> {
    let mut kinds: Vec<(String, Vec<&Attempt>)> = Vec::new();
    for attempt in attempts {
        let pattern = pattern(&attempt.text);
        match kinds.iter_mut().find(|(known, _)| *known == pattern) {
            Some((_, kind)) => kind.push(attempt),
            None => kinds.push((pattern, vec![attempt])),
        }
    }
    kinds.into_iter().map(|(_, kind)| kind).collect()
}

/// A text without its digits.
fn pattern(text: &str) -> String {
    text.chars().filter(|character| !character.is_ascii_digit()).collect()
}

/// Failures of one kind.
fn one(kind: &[&Attempt]) -> String {
    let count: u32 = kind.iter().map(|attempt| attempt.count).sum();
    match kind {
        [] => String::new(),
        [Attempt { text, count: 1, .. }] => text.clone(),
        [Attempt { text, count: 2, .. }] => format!("{text} (twice)"),
        [Attempt { text, count, .. }] => format!("{text} ({count} times)"),
        [first, .., last] => format!(
            "{} ({count} times, each with other numbers; at last: {})",
            first.text, last.text
        ),
    }
}

/// Whether a status is one of those that can be another one a little later.
pub(crate) fn may_pass(status: StatusCode) -> bool {
    [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(received: u32) -> Attempt {
        let text = format!("the transfer from registry.corp:5000 ended after {received} bytes");
        Attempt { text, is_about_config: false, count: 1 }
    }

    /// Fifty short ranges once were fifty failures in a pod's event, or eight with the rest left
    /// out: the same thing said again and again.
    #[test]
    fn failures_that_differ_by_a_number_are_told_once() {
        let mut attempts: Vec<_> = (1..=50).map(|number| short(number * 10)).collect();
        let words = "50 attempts: the transfer from registry.corp:5000 ended after 10 bytes (50 \
            times, each with other numbers; at last: the transfer from registry.corp:5000 ended \
            after 500 bytes)";
        assert_eq!(shown(&attempts), words);
        attempts.push(Attempt {
            text: "cannot reach registry.corp:5000: reset".to_owned(),
            is_about_config: true,
            count: 3,
        });
        let text = shown(&attempts);
        assert!(text.starts_with("53 attempts: the transfer "), "{text}");
        let rest = "; cannot reach registry.corp:5000: reset (3 times)";
        assert!(text.ends_with(rest), "{text}");
    }

    #[test]
    fn of_many_kinds_the_first_and_the_last_are_told() {
        let kind = |name: char| Attempt {
            text: format!("cannot reach r: {name}"),
            is_about_config: true,
            count: 1,
        };
        let text = shown(&('a'..='l').map(kind).collect::<Vec<_>>());
        assert!(
            text.contains("reach r: d; and 4 failures more; at last cannot reach r: i;"),
            "{text}"
        );
    }
}
