//! How a call that failed is answered: ttrpc's status, by which callers tell failures apart.

use ttrpc::Code;

use crate::error::{Error, Kind, chain};

/// An error as the caller gets it, which the log has too.
pub fn refuse(what: &str, error: &Error) -> ttrpc::Error {
    let message = format!("failed to {what}: {}", chain(error));
    tracing::error!("{message}");
    ttrpc::Error::RpcStatus(ttrpc::get_status(code(error), message))
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
            Error::Registry(registry_client::Error::Refused {
                host: "registry.corp".to_owned(),
                status: status.try_into().unwrap(),
                what: "the manifest".to_owned(),
                meaning: "",
            })
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
