//! Why nothing came from a source, in words for the person who reads them in `kubectl describe
//! pod`.

use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use pull_route::{EntryAccount, Reason, Source};
use registry_config::Problems;
use reqwest::StatusCode;

use crate::attempt::{self, Attempt, may_pass};
use crate::stage::Stage;

/// Why a configuration is not used, or a manifest or blob did not come. The message holds no
/// secret.
#[derive(Debug)]
pub struct Error {
    text: String,
    cause: Option<io::Error>,
    kind: Kind,
    stage: Stage,
    is_source_down: bool,
    is_about_config: bool,
    is_forbidden: bool,
    is_late: bool,
    status: Option<StatusCode>,
    again_after: Option<Duration>,
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

/// The documents allow no way there.
impl From<pull_route::Error> for Error {
    fn from(error: pull_route::Error) -> Self {
        Self {
            is_about_config: !matches!(error, pull_route::Error::Internal(_)),
            is_forbidden: matches!(error, pull_route::Error::Forbidden { .. }),
            ..Self::new(kind_of(&error), Stage::Documents, error.to_string())
        }
    }
}

/// What is asked of an error.
impl Error {
    /// Which kind of failure this is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it went wrong.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether nothing else is worth asking this source for; otherwise it is this content that it
    /// does not give.
    pub fn is_source_down(&self) -> bool {
        self.is_source_down
    }

    /// Whether a configuration decides it, so that another one of the host may help: the
    /// configuration itself, credentials, roots, a proxy, a mirror, a host that cannot be reached,
    /// and what a source has for nobody without credentials, or not so often.
    pub fn is_about_config(&self) -> bool {
        self.is_about_config
    }

    /// Whether an entry trusts nobody.
    pub fn is_forbidden(&self) -> bool {
        self.is_forbidden
    }

    /// Whether there is no such content at the source, or it says so to who asks.
    pub fn is_missing(&self) -> bool {
        self.status == Some(StatusCode::NOT_FOUND)
    }

    /// With which status the source refused, the last time that it was asked.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// How long after a failure the same source may do better, if it may.
    pub fn again_after(&self) -> Option<Duration> {
        self.again_after
    }

    /// Whether content came, but so slowly that it was not waited for.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }
}

/// What goes wrong.
impl Error {
    fn new(kind: Kind, stage: Stage, text: String) -> Self {
        Self {
            text,
            cause: None,
            kind,
            stage,
            is_source_down: matches!(kind, Kind::Denied | Kind::Unreachable),
            is_about_config: false,
            is_forbidden: false,
            is_late: false,
            status: None,
            again_after: None,
        }
    }

    /// What another configuration may cure.
    fn of_config(kind: Kind, stage: Stage, text: String) -> Self {
        Self { is_about_config: true, ..Self::new(kind, stage, text) }
    }

    /// The configuration is there but cannot be read.
    pub(crate) fn unreadable(path: &Path, cause: impl Into<io::Error>) -> Self {
        let path = path.display();
        let text = format!("the configuration {path} cannot be read; nothing is pulled without it");
        Self { cause: Some(cause.into()), ..Self::new(Kind::Data, Stage::Documents, text) }
    }

    /// The configuration breaks its rules.
    pub fn invalid(path: &Path, problems: &Problems) -> Self {
        let (path, problems) = (path.display(), one_line(problems, "check"));
        let text = format!(
            "the configuration {path} is not valid and nothing is pulled until it is corrected: \
            {problems}"
        );
        Self::of_config(Kind::Data, Stage::Documents, text)
    }

    /// What the owner configured for the data hub is no measured document.
    pub(crate) fn hub(path: &Path, problems: &[cdh_config::Finding]) -> Self {
        let problems = one_line(&cdh_config::lines(problems), "import cdh");
        let path = path.display();
        let text = format!(
            "{path} is read like a measured document, and nothing is pulled until it is corrected: \
            {problems}"
        );
        Self::new(Kind::Data, Stage::Documents, text)
    }

    /// The configuration disk was refused before there was a document, for the reason that
    /// `initdata-processor` wrote beside the document's place.
    pub(crate) fn config_refused(reason: &str) -> Self {
        let text = format!(
            "the node's configuration was refused and nothing is pulled without it: {reason}"
        );
        Self::of_config(Kind::Data, Stage::Documents, text)
    }

    /// The HTTP client could not be set up for a host.
    pub(crate) fn client(host: &str, reason: &str) -> Self {
        let text = format!("cannot set up a connection to {host}: {reason}");
        Self::of_config(Kind::Unreachable, Stage::Reach, text)
    }

    /// No answer came from a host, asked ` through the proxy …` or not.
    pub(crate) fn unreachable(host: &str, via: &str, reason: &str) -> Self {
        let text = format!("cannot reach {host}{via}: {reason}");
        Self::of_config(Kind::Unreachable, Stage::Reach, text)
    }

    /// The content did not come to its end.
    pub(crate) fn transfer(host: &str, reason: &str) -> Self {
        let text = format!("the transfer from {host} {reason}");
        let error = Self::new(Kind::Unreachable, Stage::Answer, text);
        Self { is_source_down: false, ..error }
    }

    /// The content was not there in time.
    pub(crate) fn late(host: &str, reason: &str) -> Self {
        Self { is_late: true, ..Self::transfer(host, reason) }
    }

    /// A host's certificate is not acceptable, by these roots of an entry.
    pub(crate) fn certificate(host: &str, reason: &str, roots: &Reason) -> Self {
        let text =
            format!("the certificate of {host} is not trusted: {reason}; trusted roots: {roots}");
        Self::of_config(Kind::Unreachable, Stage::Certificate, text)
    }

    /// Nobody is let in, or may be told who the puller is.
    pub(crate) fn account(text: String) -> Self {
        Self::of_config(Kind::Denied, Stage::Account, text)
    }

    /// Nobody is let in as who the puller is at this source.
    pub(crate) fn refused(source: &Source) -> Self {
        Self::refused_by(&source.host(), source)
    }

    /// Another host, such as its token server, lets nobody in as who the puller is at this source.
    pub(crate) fn refused_by(host: &str, source: &Source) -> Self {
        if let Some(reason) = &source.why_anonymous {
            return Self::no_credentials(host, reason);
        }
        let (authority, place) = source.authority.credentials_source();
        Self::account(format!(
            "{host} refused the credentials of {authority} (401 Unauthorized): check user name and \
            password or token {place}"
        ))
    }

    /// The registry wants credentials and there are none.
    pub fn no_credentials(host: &str, reason: &Reason) -> Self {
        Self::account(format!(
            "{host} wants credentials (401 Unauthorized) and was asked anonymously: {reason}"
        ))
    }

    /// Each account of the entry was rejected; with its place in the entry.
    pub(crate) fn accounts_refused(refused: &[(usize, Self)]) -> Self {
        Self::account(refusals(refused))
    }

    /// The registry knows the caller and says no, or knows no such content, and what that commonly
    /// means.
    pub fn status_of(
        host: &str,
        status: StatusCode,
        what: &str,
        meaning: &str,
        is_anonymous: bool,
    ) -> Self {
        let text = format!("{host} answers {status} for {what}: {meaning}");
        let kind = if may_pass(status) { Kind::Unreachable } else { Kind::Denied };
        let stage = match status {
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Stage::Access,
            _ => Stage::Answer,
        };
        let is_about_config = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => true,
            StatusCode::NOT_FOUND | StatusCode::TOO_MANY_REQUESTS => is_anonymous,
            _ => false,
        };
        let is_source_down =
            [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
        let error = Self::new(kind, stage, text);
        Self { status: Some(status), is_about_config, is_source_down, ..error }
    }

    /// A server answered in a way that ends the pull.
    pub(crate) fn answer(host: &str, rule: &str) -> Self {
        Self::new(Kind::Data, Stage::Answer, format!("{host} {rule}"))
    }

    /// A rule of this program's own does not hold.
    pub(crate) fn internal(rule: &str) -> Self {
        Self::new(Kind::Internal, Stage::Answer, format!("internal error: {rule}"))
    }
}

/// What is added to an error.
impl Error {
    /// It is not the first content that a source takes too long for.
    pub(crate) fn not_the_first(self) -> Self {
        Self {
            text: format!("{self}; it is not the first time there during this pull"),
            again_after: Some(Duration::ZERO),
            is_source_down: true,
            is_late: false,
            status: None,
            ..self
        }
    }

    /// No answer over plain HTTP either, after this one over TLS.
    pub(crate) fn after_tls(self, over_tls: &Self) -> Self {
        let text = format!("{self}; that was over plain HTTP, and over TLS: {over_tls}");
        Self { text, is_late: false, again_after: None, ..self }
    }

    /// The server wants to be left alone for longer than is waited.
    pub(crate) fn later(self, after: Duration) -> Self {
        let seconds = after.as_secs();
        Self {
            text: format!("{self}; it asks to be tried again in {seconds} s"),
            again_after: Some(Duration::from_secs(seconds)),
            is_source_down: true,
            is_late: false,
            status: None,
            ..self
        }
    }

    /// Asking again did not help yet, and it is another source's turn.
    pub(crate) fn for_now(self) -> Self {
        Self { again_after: Some(Duration::ZERO), ..self }
    }

    /// Asking again did not help: these failures, and this one the last.
    pub(crate) fn after(self, attempts: &[Attempt]) -> Self {
        let is_about_config = attempts.iter().any(|attempt| attempt.is_about_config);
        Self { text: attempt::shown(attempts), is_about_config, again_after: None, ..self }
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
        let roots = || Box::new(Reason::NeverPlainHttp);
        let refused = |status: u16, is_anonymous| {
            Error::status_of("r", status.try_into().unwrap(), "it", "", is_anonymous)
        };
        let unreachable = || Error::unreachable("r", "", "why");
        let attempt = |error: &Error| Attempt {
            text: error.to_string(),
            is_about_config: error.is_about_config(),
            count: 1,
        };
        let attempts = |errors: [Error; 2]| {
            let all = errors.each_ref().map(attempt);
            let [_, last] = errors;
            last.after(&all)
        };
        let forbidden = pull_route::Error::Forbidden { host: "r".to_owned(), reason: roots() };
        for (error, expected) in [
            (Error::config_refused("why"), true),
            // Credentials.
            (Error::account("why".to_owned()), true),
            (Error::accounts_refused(&[]), true),
            (Error::no_credentials("r", &roots()), true),
            (refused(401, false), true),
            (refused(403, false), true),
            (refused(404, true), true),
            (refused(404, false), false),
            (refused(429, true), true),
            (refused(429, false), false),
            (refused(429, true).later(Duration::from_secs(9)), true),
            // Roots, proxies, mirrors, and hosts that do not answer.
            (Error::certificate("r", "why", &roots()), true),
            (forbidden.into(), true),
            (Error::client("r", "why"), true),
            (unreachable(), true),
            (attempts([unreachable(), refused(500, true)]).for_now(), true),
            (attempts([refused(500, true), refused(502, true)]), false),
            // A registry that is as it is, and this program.
            (refused(400, true), false),
            (refused(503, true), false),
            (Error::transfer("r", "why"), false),
            (Error::answer("r", "why"), false),
            (pull_route::Error::Internal("why".to_owned()).into(), false),
            (Error::internal("why"), false),
        ] {
            assert_eq!(error.is_about_config(), expected, "{error}");
        }
    }
}
