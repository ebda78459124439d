//! How a call that failed is answered: ttrpc's status, by which callers tell failures apart.

use ttrpc::Code;

use crate::error::{Error, Kind, chain};

/// An error as the caller gets it, which the log has too.
pub fn refuse(what: &str, error: &Error, is_pinned: bool) -> ttrpc::Error {
    let message = format!("failed to {what}: {}", said(error, is_pinned));
    tracing::error!("{message}");
    ttrpc::Error::RpcStatus(ttrpc::get_status(code(error), message))
}

/// An error in words. Of an image that neither its name nor the owner pins to a digest the host is
/// not to learn which one its registry's answer has, for it may have named another server than a
/// registry.
pub fn said(error: &Error, is_pinned: bool) -> String {
    let text = chain(error);
    if is_pinned {
        return text;
    }
    tracing::debug!("with digests: {text}");
    without_digests(&text)
}

/// The fewest hexadecimal digits of a digest.
const MIN_DIGITS: usize = 64;

/// A text with dots for what may be the hexadecimal digits of a digest.
fn without_digests(text: &str) -> String {
    let pieces = text.split_inclusive(|character: char| !character.is_ascii_hexdigit());
    let shown = pieces.map(|piece| {
        let rest = piece.trim_start_matches(|character: char| character.is_ascii_hexdigit());
        match piece.len() - rest.len() {
            MIN_DIGITS.. => format!("...{rest}"),
            _ => piece.to_owned(),
        }
    });
    shown.collect()
}

fn code(error: &Error) -> Code {
    match error.kind() {
        _ if error.is_missing() => Code::NOT_FOUND,
        _ if matches!(error, Error::Deadline { .. }) => Code::DEADLINE_EXCEEDED,
        Kind::Request => Code::INVALID_ARGUMENT,
        Kind::Data => Code::FAILED_PRECONDITION,
        Kind::Denied => Code::PERMISSION_DENIED,
        Kind::Unreachable => Code::UNAVAILABLE,
        Kind::Exhausted => Code::RESOURCE_EXHAUSTED,
        Kind::Internal => Code::INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_status_says_what_kind_of_failure_it_is() {
        let refused = |status: u16| {
            let status = status.try_into().unwrap();
            let said = registry_client::Error::status_of("r.corp", status, "it", "", false);
            Error::Registry(said)
        };
        let deadline = Error::Deadline {
            seconds: 3,
            is_callers: true,
            last: Some("cannot reach registry.corp".to_owned()),
        };
        assert_eq!(
            deadline.to_string(),
            "the caller's deadline of 3 s passed before the image was there; the last attempt: \
            cannot reach registry.corp"
        );
        for (error, expected) in [
            (deadline, Code::DEADLINE_EXCEEDED),
            (refused(404), Code::NOT_FOUND),
            (refused(403), Code::PERMISSION_DENIED),
            (refused(503), Code::UNAVAILABLE),
        ] {
            assert_eq!(code(&error), expected, "{error}");
            let several = vec![("mirror".to_owned(), Arc::new(error))];
            let is_last = code(&Error::Sources(several)) == expected;
            assert!(is_last || expected == Code::DEADLINE_EXCEEDED);
        }
    }
}
