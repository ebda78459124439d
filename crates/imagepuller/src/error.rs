//! Everything that ends a pull, in words for the person who reads them in `kubectl describe pod`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use image_policy::Refusal;
use image_policy::conditions::TagRefused;
use layer_unpack::LayerError;
use oci_image::digest::{Digest, Mismatch};
use oci_image::pins::Refused;
use oci_image::reference::InvalidReference;
use oci_image::search::Unusable;

mod words;

pub use words::chain;
pub(crate) use words::each;
use words::{some, told};

/// Why a pull or the service failed. The messages fit after "failed to pull IMAGE: " and hold no
/// secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image's name cannot be read or pins nothing.
    #[error(transparent)]
    Reference(#[from] InvalidReference),
    /// The owner's pins are against it.
    #[error(transparent)]
    Pin(Refused),
    /// It has no digest, and the owner's image policy does not say which content its tag may have.
    #[error("{reference}; and the image policy does not help: {policy}")]
    Tag {
        /// What is said without a policy.
        reference: InvalidReference,
        /// Why the policy does not.
        policy: Box<TagRefused>,
    },
    /// The owner's image policy does not let it run.
    #[error(transparent)]
    Policy(Box<Refusal>),
    /// There is an image policy, and it cannot be used.
    #[error("{place} cannot be used, and no image is pulled without the policy: {why}")]
    PolicyUnusable {
        /// Who names it, and by which key.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// The configuration is not used, or a source gave nothing.
    #[error(transparent)]
    Registry(#[from] registry_client::Error),
    /// A source gave no signatures. That says nothing of what else it has.
    #[error(transparent)]
    Signatures(registry_client::Error),
    /// The store or a mount.
    #[error(transparent)]
    Store(#[from] layer_store::Error),
    /// The caller's bundle cannot hold a root file system.
    #[error("bundle path {path:?} {rule}")]
    Bundle {
        /// The path as sent.
        path: String,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// The directory for a pull without a mount cannot be used.
    #[error("{path} {rule}", path = .path.display())]
    Output {
        /// The directory.
        path: PathBuf,
        /// Why not.
        rule: &'static str,
    },
    /// Received content is not the content asked for.
    #[error("{what} of {host} is not the content that the image names")]
    Content {
        /// Manifest, configuration.
        what: &'static str,
        /// The host that sent it.
        host: String,
        /// What was expected and what came.
        source: Box<Mismatch>,
    },
    /// A verified manifest or configuration cannot be pulled.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The source gave no secret that only the guest may see, or there is none.
    #[error("cannot {0}")]
    Confidential(#[from] cdh_client::Error),
    /// What a reference names cannot be had, or is not what it should be. Which of these, the
    /// error does not tell: it leaves the guest.
    #[error("{reference}: the broker gave nothing usable to this guest{}", told(why.as_deref()))]
    Withheld {
        /// What was named.
        reference: String,
        /// Which, where the error goes to who asked at a terminal.
        why: Option<String>,
    },
    /// A layer is not encrypted as it should be.
    #[error("layer {digest} cannot be decrypted")]
    Encryption {
        /// The digest of the blob.
        digest: Digest,
        /// What is wrong.
        source: keys::InvalidEncryption,
    },
    /// No key opens an encrypted layer.
    #[error("layer {digest} is encrypted and there is no key for it{}", some(problems))]
    Locked {
        /// The digest of the blob.
        digest: Digest,
        /// Keys that could not be had or read.
        problems: Vec<String>,
        /// Why the others do not open it.
        source: keys::UnwrapError,
    },
    /// A layer could not be unpacked.
    #[error("layer {digest} of {host}")]
    Layer {
        /// The digest of the blob.
        digest: Digest,
        /// The host that sent it.
        host: String,
        /// What is wrong.
        source: Box<LayerError>,
    },
    /// The mirror failed, and so did the registry behind it.
    #[error("every source failed: {}", each(.0))]
    Sources(Vec<(String, Arc<Error>)>),
    /// The image store's file system does not come.
    #[error(
        "nothing is mounted at {path} after {seconds} s, and --store-mount wants a file system there",
        path = .path.display()
    )]
    StoreMount {
        /// The mount point.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The guest's clock is certainly wrong.
    #[error(
        "the guest's clock is before {built}, when this program was made: it says {now}; nothing \
        is pulled until the node sets it right"
    )]
    Clock {
        /// When this program was made.
        built: String,
        /// What the clock says.
        now: String,
    },
    /// A socket cannot be served or asked.
    #[error("socket {path} {rule}", path = .path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        rule: String,
    },
    /// The attestation agent did not put an entry into the event log.
    #[error(
        "the attestation agent at {socket} {fault}; without its entry in the event log nothing is \
        mounted",
        socket = .socket.display()
    )]
    EventLog {
        /// The agent's socket.
        socket: PathBuf,
        /// Why not.
        fault: cdh_client::Fault,
    },
    /// The caller gave less time than the pull takes.
    #[error(
        "{} of {seconds} s passed before the image was there{}",
        if *is_callers { "the caller's deadline" } else { "the longest time" },
        last.as_ref().map(|last| format!("; the last attempt: {last}")).unwrap_or_default()
    )]
    Deadline {
        /// The time that there was.
        seconds: u64,
        /// Whether the caller gave it.
        is_callers: bool,
        /// What failed and was being asked for again.
        last: Option<String>,
    },
    /// A task of this program ended without a result.
    #[error("internal error: {0}")]
    Internal(String),
}

/// What kind of failure it is, for status and exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request itself is wrong.
    Request,
    /// The configuration, an image or a registry's answer is wrong.
    Data,
    /// The registry asks for other credentials or denies access.
    Denied,
    /// The registry cannot be reached.
    Unreachable,
    /// No room, or no time.
    Exhausted,
    /// The guest itself is not as it should be.
    Internal,
}

impl Error {
    /// Which kind of failure this is; for several sources that of the last one.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Reference(_)
            | Self::Pin(_)
            | Self::Tag { .. }
            | Self::Bundle { .. }
            | Self::Output { .. } => Kind::Request,
            Self::Registry(error) | Self::Signatures(error) => match error.kind() {
                registry_client::Kind::Data => Kind::Data,
                registry_client::Kind::Denied => Kind::Denied,
                registry_client::Kind::Unreachable => Kind::Unreachable,
                registry_client::Kind::Internal => Kind::Internal,
            },
            Self::Store(layer_store::Error::Full { .. }) | Self::Deadline { .. } => Kind::Exhausted,
            Self::Layer { source, .. } if source.is_no_space() => Kind::Exhausted,
            Self::Layer { source, .. } if source.is_local() => Kind::Internal,
            Self::Store(layer_store::Error::TooManyLayers { .. }) => Kind::Data,
            Self::Content { .. }
            | Self::Policy(_)
            | Self::PolicyUnusable { .. }
            | Self::Unusable(_)
            | Self::Layer { .. }
            | Self::Encryption { .. } => Kind::Data,
            Self::Locked { .. } | Self::Withheld { .. } => Kind::Denied,
            Self::Confidential(cdh_client::Error::Unavailable { .. }) | Self::EventLog { .. } => {
                Kind::Unreachable
            }
            Self::Confidential(_) => Kind::Data,
            Self::Sources(errors) => {
                errors.last().map_or(Kind::Internal, |(_, error)| error.kind())
            }
            Self::Store(_)
            | Self::StoreMount { .. }
            | Self::Clock { .. }
            | Self::Socket { .. }
            | Self::Internal(_) => Kind::Internal,
        }
    }

    /// Whether a configuration decides it, so that another one of the host may help: what
    /// [`registry_client::Error::is_about_config`] says, and keys.
    pub fn is_about_config(&self) -> bool {
        match self {
            Self::Registry(error) | Self::Signatures(error) => error.is_about_config(),
            Self::Sources(errors) => errors.iter().any(|(_, error)| error.is_about_config()),
            Self::Locked { .. } | Self::Withheld { .. } => true,
            _ => false,
        }
    }

    /// Whether the store has no room for the image.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Store(layer_store::Error::Full { .. }) => true,
            Self::Layer { source, .. } => source.is_no_space(),
            _ => false,
        }
    }

    /// Whether there is no such image where it was looked for; of several sources, the last one.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Registry(error) => error.is_missing(),
            Self::Sources(errors) => errors.last().is_some_and(|(_, error)| error.is_missing()),
            _ => false,
        }
    }

    /// What several sources had to say; what the only one said is the error itself.
    pub(crate) fn of_sources(mut errors: Vec<(String, Arc<Self>)>) -> Self {
        match errors.pop() {
            None => Self::Internal("an image without a source".to_owned()),
            Some((name, only)) if errors.is_empty() => {
                Arc::try_unwrap(only).unwrap_or_else(|only| Self::Sources(vec![(name, only)]))
            }
            Some(last) => {
                errors.push(last);
                Self::Sources(errors)
            }
        }
    }

    /// What is told of sources that were asked for signatures: where all of them had none that
    /// would do, the refusal of the last one that had any is all that there is to say.
    pub(crate) fn of_policy(self) -> Self {
        let refusal = match &self {
            Self::Sources(errors) => {
                let refusals = errors.iter().map(|(_, error)| match &**error {
                    Self::Policy(refusal) => Some(refusal),
                    _ => None,
                });
                refusals.collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        let refusals = refusal.unwrap_or_default();
        let mut of_any = refusals.iter().rev();
        let told = of_any.find(|refusal| !refusal.is_without_any());
        match told.or(refusals.last()) {
            Some(&refusal) => Self::Policy(refusal.clone()),
            None => self,
        }
    }

    /// Whether nothing else is worth asking for at the source that this came from, rather than this
    /// one content.
    pub(crate) fn is_source_down(&self) -> bool {
        match self {
            Self::Registry(error) => error.is_source_down(),
            _ => false,
        }
    }

    /// How long after this failure its source may do better, if it may.
    pub(crate) fn again_after(&self) -> Option<Duration> {
        match self {
            Self::Registry(error) | Self::Signatures(error) => error.again_after(),
            _ => None,
        }
    }

    /// Whether another source cannot help: what is wrong is on this side, or in bytes that are the
    /// right ones, or the image policy refuses whatever it has.
    pub fn is_local(&self) -> bool {
        let is_right_blob = matches!(self, Self::Layer { source, .. }
            if matches!(**source, LayerError::Decryption(_) | LayerError::DiffId(_)));
        let is_refused = matches!(self, Self::Policy(refusal) if !refusal.may_be_helped());
        is_right_blob
            || is_refused
            || matches!(self.kind(), Kind::Request | Kind::Exhausted | Kind::Internal)
    }
}

impl From<Refused> for Error {
    fn from(error: Refused) -> Self {
        match error {
            Refused::Reference(error) => Self::Reference(error),
            error => Self::Pin(error),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Policy(Box::new(refusal))
    }
}

impl From<pull_route::Error> for Error {
    fn from(error: pull_route::Error) -> Self {
        Self::Registry(error.into())
    }
}
