//! Why nothing came from a source, in words for the person who reads them in `kubectl describe
//! pod`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pull_route::{EntryAccount, Reason, Source};
use registry_config::Problems;
use reqwest::StatusCode;

use crate::attempt::{self, Attempt, may_pass};

/// Why a configuration is not used, or a manifest or blob did not come. The messages hold no
/// secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is there but cannot be read.
    #[error("the configuration {path} cannot be read; nothing is pulled without \
    it", path = .path.display())]
    ConfigurationUnreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The configuration breaks its rules.
    #[error(
        "the configuration {path} is not valid and nothing is pulled until it is corrected: \
        {problems}",
        path = .path.display(),
        problems = one_line(problems, "check")
    )]
    ConfigurationInvalid {
        /// The file.
        path: PathBuf,
        /// Each broken rule with line and key.
        problems: Problems,
    },
    /// What the owner configured for the data hub is no measured document.
    #[error(
        "{path} is read like a measured document, and nothing is pulled until it is corrected: \
        {problems}",
        path = .path.display(),
        problems = one_line(&cdh_config::lines(problems), "import cdh")
    )]
    HubConfiguration {
        /// The file.
        path: PathBuf,
        /// What is wrong, each with its place.
        problems: Vec<cdh_config::Finding>,
    },
    /// The configuration disk was refused before there was a document.
    #[error("the node's configuration was refused and nothing is pulled without it: {reason}")]
    ConfigurationRefused {
        /// What `initdata-processor` wrote beside the document's place.
        reason: String,
    },
    /// The documents allow no way there.
    #[error(transparent)]
    Route(#[from] pull_route::Error),
    /// The HTTP client could not be set up.
    #[error("cannot set up a connection to {host}: {reason}")]
    Client {
        /// The host to be contacted.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// No answer came from a host.
    #[error("cannot reach {host}{via}: {reason}")]
    Unreachable {
        /// Host and port.
        host: String,
        /// ` through the proxy …`, or nothing.
        via: String,
        /// What happened.
        reason: String,
    },
    /// An answer began but did not come to its end.
    #[error("the transfer from {host} {reason}")]
    Transfer {
        /// Host and port.
        host: String,
        /// What happened.
        reason: String,
        /// Whether all that was wrong is the time that it took.
        is_late: bool,
    },
    /// Not the first content that a source takes too long for.
    #[error("{0}; it is not the first time there during this pull")]
    Late(Box<Error>),
    /// No answer over plain HTTP either.
    #[error("{error}; that was over plain HTTP, and over TLS: {over_tls}")]
    Plain {
        /// What happened over plain HTTP.
        error: Box<Error>,
        /// What happened over TLS before.
        over_tls: Box<Error>,
    },
    /// A host's certificate is not acceptable.
    #[error("the certificate of {host} is not trusted: {reason}; trusted roots: {roots}")]
    Certificate {
        /// Host and port.
        host: String,
        /// What is wrong with the certificate.
        reason: String,
        /// Which roots are trusted, and by which entry.
        roots: Box<Reason>,
    },
    /// Credentials would be readable on the wire.
    #[error(
        "{host} answers over plain HTTP and asks for the credentials of {authority}, which are \
        sent that way only with \"plain-http = true\""
    )]
    CredentialsInClear {
        /// Host and port.
        host: String,
        /// The entry.
        authority: String,
    },
    /// The registry or token server rejected the credentials.
    #[error(
        "{host} refused the credentials of {authority} (401 Unauthorized): check user name and \
        password or token {place}"
    )]
    CredentialsRefused {
        /// Host and port.
        host: String,
        /// The entry, or what it refers to.
        authority: String,
        /// Where they are corrected.
        place: &'static str,
    },
    /// Each account of the entry was rejected; with its place in the entry.
    #[error("{}", refusals(.0))]
    AccountsRefused(Vec<(usize, Error)>),
    /// The registry wants credentials and there are none.
    #[error("{host} wants credentials (401 Unauthorized) and was asked anonymously: {reason}")]
    CredentialsMissing {
        /// Host and port.
        host: String,
        /// Why there are none.
        reason: Box<Reason>,
    },
    /// The credentials at hand do not fit what is asked for.
    #[error("{host} {rule}")]
    Challenge {
        /// Host and port.
        host: String,
        /// What does not fit.
        rule: String,
    },
    /// The registry knows the caller and says no, or knows no such content.
    #[error("{host} answers {status} for {what}: {meaning}")]
    Refused {
        /// Host and port.
        host: String,
        /// Code and reason.
        status: StatusCode,
        /// The manifest or blob.
        what: String,
        /// What that commonly means.
        meaning: &'static str,
        /// Whether there are no credentials for the source.
        is_anonymous: bool,
    },
    /// The server answered in a way that ends the pull.
    #[error("{host} {rule}")]
    Answer {
        /// Host and port.
        host: String,
        /// What is wrong.
        rule: String,
    },
    /// A blob that cannot be the one that the manifest describes.
    #[error("{host} {rule} of a blob that has {size_bytes} by the manifest")]
    Length {
        /// Host and port.
        host: String,
        /// What it says or sends.
        rule: &'static str,
        /// The descriptor's size.
        size_bytes: u64,
    },
    /// The server wants to be left alone for longer than is waited.
    #[error("{error}; it asks to be tried again in {after_secs} s")]
    Later {
        /// What it answered.
        error: Box<Error>,
        /// When it is to be asked again.
        after_secs: u64,
    },
    /// Asking again did not help.
    #[error("{}", attempt::shown(.0))]
    Attempts(Vec<Attempt>),
    /// Asking again did not help yet, and it is another source's turn.
    #[error("{0}")]
    ForNow(Box<Error>),
    /// The server's answer is larger than any real one.
    #[error("{host} sent more than {limit_bytes} bytes of {what}")]
    TooLarge {
        /// Host and port.
        host: String,
        /// What was asked for.
        what: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// A rule of this program's own does not hold.
    #[error("internal error: {0}")]
    Internal(String),
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The configuration or an answer is wrong.
    Data,
    /// The registry asks for other credentials or denies access.
    Denied,
    /// The registry cannot be reached.
    Unreachable,
    /// This program is not as it should be.
    Internal,
}

impl Error {
    /// No answer, and nothing is known about a proxy.
    pub(crate) fn unreachable(host: &str, reason: String) -> Self {
        Self::Unreachable { host: host.to_owned(), via: String::new(), reason }
    }

    /// Which kind of failure this is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::ConfigurationUnreadable { .. }
            | Self::ConfigurationInvalid { .. }
            | Self::HubConfiguration { .. }
            | Self::ConfigurationRefused { .. }
            | Self::Answer { .. }
            | Self::Length { .. }
            | Self::TooLarge { .. } => Kind::Data,
            Self::Route(error) => kind_of(error),
            Self::Later { error, .. }
            | Self::Late(error)
            | Self::ForNow(error)
            | Self::Plain { error, .. } => error.kind(),
            Self::Attempts(attempts) => {
                attempts.last().map_or(Kind::Internal, |attempt| attempt.error.kind())
            }
            Self::Refused { status, .. } if may_pass(*status) => Kind::Unreachable,
            Self::CredentialsInClear { .. }
            | Self::CredentialsRefused { .. }
            | Self::AccountsRefused(_)
            | Self::CredentialsMissing { .. }
            | Self::Challenge { .. }
            | Self::Refused { .. } => Kind::Denied,
            Self::Client { .. }
            | Self::Unreachable { .. }
            | Self::Transfer { .. }
            | Self::Certificate { .. } => Kind::Unreachable,
            Self::Internal(_) => Kind::Internal,
        }
    }
}

impl Error {
    /// Whether nothing else is worth asking this source for; otherwise it is this content that it
    /// does not give.
    pub fn is_source_down(&self) -> bool {
        match self {
            Self::Later { .. } | Self::Late(_) => true,
            Self::Plain { error, .. } | Self::ForNow(error) => error.is_source_down(),
            Self::Attempts(attempts) => {
                attempts.last().is_some_and(|attempt| attempt.error.is_source_down())
            }
            Self::Refused { status, .. } => {
                *status == StatusCode::TOO_MANY_REQUESTS
                    || *status == StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Transfer { .. } => false,
            _ => matches!(self.kind(), Kind::Denied | Kind::Unreachable),
        }
    }

    /// Whether a configuration decides it, so that another one of the host may help: the
    /// configuration itself, credentials, roots, a proxy, a mirror, a host that cannot be reached,
    /// and what a source has for nobody without credentials, or not so often.
    pub fn is_about_config(&self) -> bool {
        match self {
            Self::ConfigurationInvalid { .. }
            | Self::ConfigurationRefused { .. }
            | Self::Client { .. }
            | Self::Unreachable { .. }
            | Self::Certificate { .. }
            | Self::CredentialsInClear { .. }
            | Self::CredentialsRefused { .. }
            | Self::AccountsRefused(_)
            | Self::CredentialsMissing { .. }
            | Self::Challenge { .. } => true,
            Self::Route(error) => !matches!(error, pull_route::Error::Internal(_)),
            Self::Refused { status, is_anonymous, .. } => match *status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => true,
                StatusCode::NOT_FOUND | StatusCode::TOO_MANY_REQUESTS => *is_anonymous,
                _ => false,
            },
            Self::Later { error, .. }
            | Self::Late(error)
            | Self::ForNow(error)
            | Self::Plain { error, .. } => error.is_about_config(),
            Self::Attempts(attempts) => {
                attempts.iter().any(|attempt| attempt.error.is_about_config())
            }
            Self::ConfigurationUnreadable { .. }
            | Self::HubConfiguration { .. }
            | Self::Transfer { .. }
            | Self::Answer { .. }
            | Self::Length { .. }
            | Self::TooLarge { .. }
            | Self::Internal(_) => false,
        }
    }

    /// Whether there is no such content at the source, or it says so to who asks.
    pub fn is_missing(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }

    /// With which status the source refused, the last time that it was asked.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Attempts(attempts) => attempts.last()?.error.status(),
            Self::Plain { error, .. } | Self::ForNow(error) => error.status(),
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// How long after a failure the same source may do better, if it may.
    pub fn again_after(&self) -> Option<Duration> {
        match self {
            Self::ForNow(_) | Self::Late(_) => Some(Duration::ZERO),
            Self::Later { after_secs, .. } => Some(Duration::from_secs(*after_secs)),
            _ => None,
        }
    }

    /// Whether content came, but so slowly that it was not waited for.
    pub(crate) fn is_late(&self) -> bool {
        match self {
            Self::Transfer { is_late, .. } => *is_late,
            Self::ForNow(error) => error.is_late(),
            Self::Attempts(attempts) => {
                attempts.last().is_some_and(|attempt| attempt.error.is_late())
            }
            _ => false,
        }
    }

    /// Nobody is let in as who the puller is at this source.
    pub(crate) fn refused(source: &Source) -> Self {
        Self::refused_by(source.host(), source)
    }

    /// Another host, such as its token server, lets nobody in as who the puller is at this source.
    pub(crate) fn refused_by(host: String, source: &Source) -> Self {
        if let Some(reason) = &source.why_anonymous {
            let reason = Box::new(reason.clone());
            return Self::CredentialsMissing { host, reason };
        }
        let (authority, place) = source.authority.credentials_source();
        Self::CredentialsRefused { host, authority, place }
    }

    /// The content did not come to its end.
    pub(crate) fn transfer(host: &str, reason: String) -> Self {
        Self::Transfer { host: host.to_owned(), reason, is_late: false }
    }

    /// The content was not there in time.
    pub(crate) fn late(host: &str, reason: String) -> Self {
        Self::Transfer { host: host.to_owned(), reason, is_late: true }
    }
}

fn kind_of(error: &pull_route::Error) -> Kind {
    match error {
        pull_route::Error::NodeError(_)
        | pull_route::Error::UnfitCredentials { .. }
        | pull_route::Error::MirrorInClear { .. }
        | pull_route::Error::Unresolved { .. }
        | pull_route::Error::MirrorReference { .. }
        | pull_route::Error::NoName { .. } => Kind::Data,
        pull_route::Error::Forbidden { .. }
        | pull_route::Error::Blocked { .. }
        | pull_route::Error::Near { .. }
        | pull_route::Error::PlainHttp { .. }
        | pull_route::Error::Realm { .. } => Kind::Denied,
        pull_route::Error::Address { .. } => Kind::Unreachable,
        pull_route::Error::Internal(_) => Kind::Internal,
    }
}

/// Each reason once, with the accounts that it is about.
fn refusals(refusals: &[(usize, Error)]) -> String {
    let mut reasons: Vec<(String, Vec<usize>)> = Vec::new();
    for (number, error) in refusals {
        let text = error.to_string();
        match reasons.iter_mut().find(|(known, _)| *known == text) {
            Some((_, numbers)) => numbers.push(*number),
            None => reasons.push((text, vec![*number])),
        }
    }
    let show = |(text, numbers): &(String, Vec<usize>)| {
        format!("{} refused: {text}", EntryAccount::places(numbers))
    };
    reasons.iter().map(show).collect::<Vec<_>>().join("; ")
}

/// How many problems of a document an answer names; the rest are for `kata-configdev check` on the
/// node.
const MAX_PROBLEMS: usize = 8;

/// The first problems on one line: an answer ends up in a pod's events, which hold about a
/// kilobyte.
fn one_line(problems: &impl ToString, command: &str) -> String {
    let all = problems.to_string();
    let mut lines = all.trim_end().lines();
    let mut text = lines.by_ref().take(MAX_PROBLEMS).collect::<Vec<_>>().join("; ");
    let more = lines.count();
    if more > 0 {
        text.push_str(&format!("; and {more} more, which `kata-configdev {command}` lists"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_decides_who_asks_whom_and_whom_to_trust() {
        let host = || "registry.corp".to_owned();
        let reason = || "why".to_owned();
        let roots = || Box::new(Reason::NeverPlainHttp);
        let refused = |status: u16, is_anonymous| Error::Refused {
            host: host(),
            status: status.try_into().unwrap(),
            what: "the manifest".to_owned(),
            meaning: "",
            is_anonymous,
        };
        let unreachable = || Error::unreachable("registry.corp", reason());
        let attempts = |errors: Vec<Error>| {
            let attempt = |error| Attempt { error, count: 1 };
            Error::Attempts(errors.into_iter().map(attempt).collect())
        };
        for (error, expected) in [
            (Error::ConfigurationRefused { reason: reason() }, true),
            // Credentials.
            (Error::CredentialsInClear { host: host(), authority: host() }, true),
            (Error::CredentialsRefused { host: host(), authority: host(), place: "" }, true),
            (Error::AccountsRefused(Vec::new()), true),
            (Error::CredentialsMissing { host: host(), reason: roots() }, true),
            (Error::Challenge { host: host(), rule: reason() }, true),
            (refused(401, false), true),
            (refused(403, false), true),
            (refused(404, true), true),
            (refused(404, false), false),
            (refused(429, true), true),
            (refused(429, false), false),
            (Error::Later { error: Box::new(refused(429, true)), after_secs: 9 }, true),
            // Roots, proxies, mirrors, and hosts that do not answer.
            (Error::Certificate { host: host(), reason: reason(), roots: roots() }, true),
            (Error::Route(pull_route::Error::Forbidden { host: host(), reason: roots() }), true),
            (Error::Client { host: host(), reason: reason() }, true),
            (Error::Unreachable { host: host(), via: host(), reason: reason() }, true),
            (Error::ForNow(Box::new(attempts(vec![unreachable(), refused(500, true)]))), true),
            (attempts(vec![refused(500, true), refused(502, true)]), false),
            // A registry that is as it is, and this program.
            (refused(400, true), false),
            (refused(503, true), false),
            (Error::transfer("registry.corp", reason()), false),
            (Error::Answer { host: host(), rule: reason() }, false),
            (Error::TooLarge { host: host(), what: "", limit_bytes: 1 }, false),
            (Error::Route(pull_route::Error::Internal(reason())), false),
            (Error::Internal(reason()), false),
        ] {
            assert_eq!(error.is_about_config(), expected, "{error}");
        }
    }
}
