//! What an answer without success means. The type of its error decides: Trustee's status is 401
//! for a session that is over, a resource that is denied and one that is not there alike.

use std::fmt;

use reqwest::StatusCode;

use crate::http::Answer;

use super::message::{self, ErrorKind};

/// What the broker was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Challenge,
    Evidence,
    Resource,
}

/// An answer without success. What it displays tells resources that are denied from those that are
/// not there, so it is for the guest's own log.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    /// What the broker calls it: few harmless letters.
    kind: Option<String>,
    meaning: Meaning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Version,
    NotBegun,
    Evidence,
    Proof,
    Policy,
    Missing,
    Plugin,
    NoBroker,
    Failed,
    Unknown,
}

impl Refusal {
    /// Judges an answer.
    pub(super) fn of(answer: &Answer, step: Step) -> Self {
        let error = message::error_kind(&answer.body);
        Self {
            status: answer.status,
            meaning: Meaning::of(answer.status, &error, step),
            kind: error.kind,
        }
    }

    /// Whether the evidence was refused, or the session ran out before it came: the broker has one
    /// word for both.
    pub(super) fn is_of_evidence(&self) -> bool {
        self.meaning == Meaning::Evidence
    }

    /// Whether no broker that attests lives there.
    pub(super) fn is_of_address(&self) -> bool {
        self.meaning == Meaning::NoBroker
    }

    /// Whether the session or token is the reason, so that another one may do.
    pub(super) fn is_of_proof(&self) -> bool {
        self.meaning == Meaning::Proof
    }
}

impl Meaning {
    fn of(status: StatusCode, error: &ErrorKind, step: Step) -> Self {
        match (step, error.kind.as_deref()) {
            (Step::Challenge, Some("AttestationError")) if error.is_version => Self::Version,
            (Step::Challenge, Some("AttestationError")) => Self::NotBegun,
            (Step::Evidence, Some("AttestationError")) => Self::Evidence,
            (Step::Resource, Some("TokenNotFound" | "TokenVerifierError")) => Self::Proof,
            (Step::Resource, Some("PolicyDeny")) => Self::Policy,
            (Step::Resource, Some("PluginInternalError")) => Self::Missing,
            (Step::Resource, Some("PluginNotFound")) => Self::Plugin,
            (_, None) if status == StatusCode::NOT_FOUND => Self::NoBroker,
            _ if status.is_server_error() => Self::Failed,
            _ => Self::Unknown,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Version => {
                "the broker speaks another version of its protocol than 0.4.0, which this program \
                speaks"
            }
            Self::NotBegun => "the broker does not begin; its own log says why",
            Self::Evidence => {
                "the evidence was not taken; compare the broker's policy and reference values with \
                this guest"
            }
            Self::Proof => "the broker does not take the session or token",
            Self::Policy => "the broker's policy does not give this resource to this guest",
            Self::Missing => "the broker has no such resource, or cannot read it",
            Self::Plugin => "the broker has no such plugin",
            Self::NoBroker => "no broker of this protocol lives at this address",
            Self::Failed => {
                "the broker, or something in front of it, has failed; its own log says why"
            }
            Self::Unknown => "that is none of the broker's answers; is there one at this address?",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "answered with HTTP status {}", self.status.as_u16())?;
        if let Some(kind) = &self.kind {
            write!(f, ", \"{kind}\"")?;
        }
        write!(f, ": {}", self.meaning.words())
    }
}
