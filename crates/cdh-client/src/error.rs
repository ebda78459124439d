//! Why a secret could not be had, in words that repeat no part of it.

use std::io::ErrorKind;
use std::time::Duration;

use registry_config::ResourceSource;
use thiserror::Error;

/// Why a secret could not be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no source to ask.
    #[error(
        "{what}: there is no CDH to ask: name a \"source\" in [resources] of the measured document, \
        or start imagepuller serve with --upstream unix:PATH of the CDH behind it"
    )]
    NotConfigured {
        /// What was asked for.
        what: String,
    },
    /// The source did not give it.
    #[error("{what}: {source_name} {fault}")]
    Unavailable {
        /// What was asked for.
        what: String,
        /// The source as `[resources]` has it.
        source_name: String,
        /// Why it did not answer.
        fault: Fault,
    },
}

impl Error {
    pub(crate) fn of(what: String, source: &ResourceSource, fault: Fault) -> Self {
        Self::Unavailable { what, source_name: source.to_string(), fault }
    }

    /// Whether it tells anything of a resource, so that it must not leave the guest.
    pub fn is_about_resource(&self) -> bool {
        match self {
            Self::Unavailable { fault, .. } => fault.is_about_resource(),
            Self::NotConfigured { .. } => false,
        }
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
    /// Nobody listens there.
    #[error("cannot be asked: nobody listens there ({0})")]
    Absent(ErrorKind),
    /// No connection, or a broken one.
    #[error("cannot be asked: {reason}")]
    Unreachable {
        /// What the system or the library says.
        reason: String,
    },
    /// More bytes than anything needs.
    #[error("answered with more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
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
    /// It knows the `resource` plugin only.
    #[error("keeps only what kbs:///repository/type/tag names; ask the data hub for other plugins")]
    Plugin,
    /// A file that cannot be read.
    #[error("cannot be read: {0}")]
    File(ErrorKind),
    /// A file with something else in it.
    #[error("is not as it has to be: {rule}")]
    Content {
        /// What about it.
        rule: &'static str,
    },
}

impl Fault {
    /// Whether it tells anything of a resource: whether there is one, who may have it, or what it
    /// holds. Who provokes errors of pulls from outside must not learn that.
    pub fn is_about_resource(&self) -> bool {
        matches!(
            self,
            Self::NotThere
                | Self::TooLarge { .. }
                | Self::Call { .. }
                | Self::Answer { .. }
                | Self::File(_)
                | Self::Content { .. }
        )
    }
}
