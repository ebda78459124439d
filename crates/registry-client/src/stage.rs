//! How far a request came.

use reqwest::StatusCode;

use crate::error::Error;

/// The last thing that was tried on the way to an answer. In the order of that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Reading the documents, which may allow no way there.
    Documents,
    /// Reaching the host, by its proxy if there is one.
    Reach,
    /// Believing its certificate.
    Certificate,
    /// Telling who the puller is.
    Account,
    /// Being allowed to have the content, which may not be there either.
    Access,
    /// Reading what came.
    Answer,
}

impl Stage {
    /// A word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::Reach => "reach",
            Self::Certificate => "certificate",
            Self::Account => "account",
            Self::Access => "access",
            Self::Answer => "answer",
        }
    }
}

impl Error {
    /// Where it went wrong.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::ConfigurationUnreadable { .. }
            | Self::ConfigurationInvalid { .. }
            | Self::HubConfiguration { .. }
            | Self::ConfigurationRefused { .. }
            | Self::Route(_) => Stage::Documents,
            Self::Client { .. } | Self::Unreachable { .. } => Stage::Reach,
            Self::Certificate { .. } => Stage::Certificate,
            Self::CredentialsInClear { .. }
            | Self::CredentialsRefused { .. }
            | Self::AccountsRefused(_)
            | Self::CredentialsMissing { .. }
            | Self::Challenge { .. } => Stage::Account,
            Self::Refused { status, .. }
                if *status == StatusCode::FORBIDDEN || *status == StatusCode::NOT_FOUND =>
            {
                Stage::Access
            }
            Self::Later { error, .. }
            | Self::Late(error)
            | Self::ForNow(error)
            | Self::Plain { error, .. } => error.stage(),
            Self::Attempts(attempts) => {
                attempts.last().map_or(Stage::Answer, |attempt| attempt.error.stage())
            }
            Self::Refused { .. }
            | Self::Transfer { .. }
            | Self::Answer { .. }
            | Self::Length { .. }
            | Self::TooLarge { .. }
            | Self::Internal(_) => Stage::Answer,
        }
    }
}
