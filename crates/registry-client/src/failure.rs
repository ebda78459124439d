//! Why an attempt failed, and whether another one may do better.

use std::time::Duration;

use crate::error::Error;

/// Why no answer came.
#[derive(Debug)]
pub struct Failure {
    /// In words for the user.
    pub error: Error,
    /// Whether the host that was asked, and none it redirected to, may still answer over plain
    /// HTTP: nothing spoke TLS there.
    pub is_without_tls: bool,
    /// Whether asking again can help.
    pub again: Again,
    /// Whether it is about who asks, so that another account may be let in.
    pub is_about_account: bool,
}

/// Whether asking again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It would be the same answer.
    Never,
    /// Perhaps, after a while.
    Perhaps,
    /// The server says when.
    After(Duration),
}

impl Failure {
    /// What may be better next time.
    pub fn passing(error: Error) -> Self {
        Self { error, is_without_tls: false, again: Again::Perhaps, is_about_account: false }
    }

    /// A refusal of who asks.
    pub fn of_account(error: Error) -> Self {
        Self { is_about_account: true, ..error.into() }
    }
}

impl Failure {
    /// The same, after it was asked over TLS too: who reads it does not know which of the two was
    /// meant to work.
    pub fn after_tls(self, over_tls: &Error) -> Self {
        if self.error.to_string() == over_tls.to_string() {
            return self;
        }
        Self { error: self.error.after_tls(over_tls), ..self }
    }
}

impl From<Error> for Failure {
    /// What would be the same next time.
    fn from(error: Error) -> Self {
        Self { error, is_without_tls: false, again: Again::Never, is_about_account: false }
    }
}
