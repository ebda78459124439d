//! Why a secret could not be had, in words that repeat no part of it.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use jose::{JweError, KeyError};
use puller_config::ResourceUri;
use thiserror::Error;

use crate::broker::refusal::Refusal;

/// Why a secret could not be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no source to ask.
    #[error(
        "get {uri}: there is no CDH to ask: start imagepuller with --upstream unix:PATH of the CDH \
        behind it, or name a \"source\" in [resources] of the measured document"
    )]
    NotConfigured {
        /// What was asked for.
        uri: ResourceUri,
    },
    /// No source had it that may be asked.
    #[error("get {uri}: {}{others}", Listed(failures))]
    Unavailable {
        /// What was asked for.
        uri: ResourceUri,
        /// What each source said, in the order in which they were asked.
        failures: Vec<Failure>,
        /// Why no other one was asked.
        others: Others,
    },
    /// No hub unwrapped a layer's key.
    #[error("have a layer's key unwrapped: {}", Listed(failures))]
    Wrapped {
        /// What each hub said, in the order in which they were asked.
        failures: Vec<Failure>,
    },
    /// A source that cannot be asked at all.
    #[error("use {source_name} as a source of resources: {reason}")]
    Source {
        /// The source as `[resources]` has it.
        source_name: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Whether it tells anything of a resource, so that it must not leave the guest.
    pub fn is_about_resource(&self) -> bool {
        match self {
            Self::Unavailable { failures, .. } | Self::Wrapped { failures } => {
                failures.iter().any(|failure| failure.fault.is_about_resource())
            }
            Self::NotConfigured { .. } | Self::Source { .. } => false,
        }
    }

    /// The whole reason, which stays in the guest.
    pub fn inside(&self) -> String {
        let whole = |failures: &[Failure]| {
            let all = failures.iter();
            let all = all.map(|failure| format!("{} {}", failure.source, failure.fault.inside()));
            all.collect::<Vec<_>>().join("; ")
        };
        match self {
            Self::Unavailable { uri, failures, others } => {
                format!("get {uri}: {}{others}", whole(failures))
            }
            Self::Wrapped { failures } => {
                format!("have a layer's key unwrapped: {}", whole(failures))
            }
            error => error.to_string(),
        }
    }
}

/// Why other sources were not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// There are none.
    None,
    /// The resource has a source of its own.
    Own,
    /// Another one gave the pull's first secret.
    First,
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::Own => "; [resources.from] of the measured document has no other source for it",
            Self::First => {
                "; it gave the pull's first secret, so all others come from it too, but for those \
                in [resources.from] of the measured document"
            }
        })
    }
}

/// What one source said.
#[derive(Debug)]
pub struct Failure {
    /// The source as `[resources]` has it.
    pub source: String,
    /// Why it did not answer with the resource.
    pub fault: Fault,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.source, self.fault)
    }
}

/// Why a source did not answer with a resource. Each text goes on after the name of the source.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// It says that there is no such resource.
    #[error("does not have it")]
    NotThere,
    /// No whole answer in time.
    #[error("gave no whole answer within {} seconds", .0.as_secs_f32())]
    Late(Duration),
    /// The time for all sources together ran out.
    #[error("was asked last, when the {} seconds for all sources were over", .0.as_secs_f32())]
    OutOfTime(Duration),
    /// Nobody listens there.
    #[error("cannot be asked: nobody listens there ({0})")]
    Absent(ErrorKind),
    /// No connection, or a broken one.
    #[error("cannot be asked: {reason}")]
    Unreachable {
        /// What the system or the library says.
        reason: String,
    },
    /// A certificate that does not fit the roots or the name.
    #[error("has a certificate that is not trusted: {reason}; {roots}")]
    Certificate {
        /// What is wrong with it.
        reason: &'static str,
        /// Which roots the guest trusts.
        roots: &'static str,
    },
    /// More bytes than anything needs.
    #[error("answered with more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// It sends the guest elsewhere.
    #[error("redirects, which is not followed; name the address that answers")]
    Redirect,
    /// A broker's answer without success. Why is what [`Fault::inside`] says.
    #[error("gave nothing usable to this guest")]
    Refused(Refusal),
    /// A ttrpc status that is none of success.
    #[error("answered with ttrpc status {code}: {hint}")]
    Call {
        /// The status, as gRPC numbers them.
        code: i32,
        /// What that means.
        hint: &'static str,
    },
    /// An answer that breaks the protocol.
    #[error("answered with something that {rule}")]
    Answer {
        /// What about it.
        rule: &'static str,
    },
    /// An answer for another key, or none that is encrypted.
    #[error("answered with what the guest's key does not open: {0}")]
    NotOpened(#[from] JweError),
    /// It knows the `resource` plugin only.
    #[error(
        "keeps only what kbs:///repository/type/tag names; ask the data hub or the broker itself \
        for other plugins"
    )]
    Plugin,
    /// A broker, and no way to prove anything to it.
    #[error(
        "wants a proof of what the guest is: set \"kbs-token-file\" or \"kbs-attester\" in \
        [resources]"
    )]
    NoProof,
    /// No proof for a broker.
    #[error(
        "wants a proof, and the attestation agent at {socket} {fault}",
        socket = .socket.display()
    )]
    Attester {
        /// Where the agent listens.
        socket: PathBuf,
        /// Why it gave none.
        fault: Box<Fault>,
    },
    /// The initdata that a broker gets with the evidence.
    #[error("wants evidence, and the initdata beside it, {path}, {fault}", path = .path.display())]
    Initdata {
        /// The file.
        path: PathBuf,
        /// Why it is not sent.
        fault: Box<Fault>,
    },
    /// No key for a session.
    #[error("wants a key that the guest cannot make: {0}")]
    Key(#[from] KeyError),
    /// A file that cannot be read.
    #[error("cannot be read: {0}")]
    File(ErrorKind),
    /// A file with something else in it.
    #[error("is not as it has to be: {rule}")]
    Content {
        /// What about it.
        rule: &'static str,
    },
    /// The file with the token that a broker takes.
    #[error("takes the token of \"kbs-token-file\", and that file {0}")]
    TokenFile(Box<Fault>),
}

impl Fault {
    /// Whether it tells anything of a resource: whether there is one, who may have it, or what it
    /// holds. Who provokes errors of pulls from outside must not learn that.
    pub fn is_about_resource(&self) -> bool {
        matches!(
            self,
            Self::NotThere
                | Self::TooLarge { .. }
                | Self::Refused(_)
                | Self::Call { .. }
                | Self::Answer { .. }
                | Self::NotOpened(_)
                | Self::File(_)
                | Self::Content { .. }
        )
    }

    /// The whole reason, which stays in the guest. Like the fault itself it goes on after the name
    /// of the source.
    pub fn inside(&self) -> &dyn fmt::Display {
        match self {
            Self::Refused(refusal) => refusal,
            fault => fault,
        }
    }
}

struct Listed<'a>(&'a [Failure]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, failure) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{failure}")?;
        }
        Ok(())
    }
}
