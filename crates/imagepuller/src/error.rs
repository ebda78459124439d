//! Everything that ends a pull, in words for the person who reads them in `kubectl describe pod`.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use puller_config::Problems;

use crate::digest::{Digest, Mismatch};
use crate::layer::LayerError;

/// Why a pull or the service failed. The messages fit after "failed to pull IMAGE: " and hold no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image's name cannot be read.
    #[error("the image reference is not valid: {rule}")]
    Reference {
        /// The rule that it breaks.
        rule: String,
    },
    /// The image's name pins no content.
    #[error(
        "the image reference has no digest, so nothing would say which content is right: write {name}@sha256:…, with what `skopeo inspect --format '{{{{.Digest}}}}' docker://{name}:{tag}` prints"
    )]
    NoDigest {
        /// Registry and repository.
        name: String,
        /// The tag that would have been meant.
        tag: String,
    },
    /// The caller's bundle cannot hold a root file system.
    #[error("bundle path {path:?} {rule}")]
    Bundle {
        /// The path as sent.
        path: String,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// The configuration is there but cannot be read.
    #[error("the configuration {path} cannot be read; nothing is pulled without it", path = .path.display())]
    ConfigurationUnreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The configuration breaks its rules.
    #[error(
        "the configuration {path} is not valid and nothing is pulled until it is corrected: {problems}",
        path = .path.display(),
        problems = one_line(problems)
    )]
    ConfigurationInvalid {
        /// The file.
        path: PathBuf,
        /// Each broken rule with line and key.
        problems: Problems,
    },
    /// The configuration disk was refused before there was a document.
    #[error("the node's configuration was refused and nothing is pulled without it: {reason}")]
    ConfigurationRefused {
        /// What `initdata-processor` wrote beside the document's place.
        reason: String,
    },
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
    /// A host's certificate is not acceptable.
    #[error("the certificate of {host} is not trusted: {reason}; {roots}")]
    Certificate {
        /// Host and port.
        host: String,
        /// What is wrong with the certificate.
        reason: String,
        /// Which roots were asked, and by whose order.
        roots: String,
    },
    /// The entry trusts nobody.
    #[error(
        "{authority} forbids {host}: its \"ca-certs\" holds no certificate and so trusts nobody"
    )]
    Forbidden {
        /// Host and port.
        host: String,
        /// The entry.
        authority: String,
    },
    /// Plain HTTP where nothing allows it.
    #[error(
        "{host} is only to be asked over plain HTTP, which {authority} does not allow (\"plain-http = true\")"
    )]
    PlainHttp {
        /// Host and port.
        host: String,
        /// The entry, or that there is none.
        authority: String,
    },
    /// Credentials would be readable on the wire.
    #[error(
        "{host} answers over plain HTTP and asks for the credentials of {authority}, which are sent that way only with \"plain-http = true\""
    )]
    CredentialsInClear {
        /// Host and port.
        host: String,
        /// The entry.
        authority: String,
    },
    /// The registry or token server rejected the credentials.
    #[error(
        "{host} refused the credentials of {authority} (401 Unauthorized): check user name and password or token in the node's imagepuller.toml"
    )]
    CredentialsRefused {
        /// Host and port.
        host: String,
        /// The entry.
        authority: String,
    },
    /// The registry wants credentials and there are none.
    #[error("{host} wants credentials (401 Unauthorized) and was asked anonymously: {authority}")]
    CredentialsMissing {
        /// Host and port.
        host: String,
        /// Why there are none.
        authority: String,
    },
    /// The credentials at hand do not fit what is asked for.
    #[error("{host} {rule}")]
    Challenge {
        /// Host and port.
        host: String,
        /// What does not fit.
        rule: String,
    },
    /// The token server would see the credentials, and nothing vouches for it.
    #[error("{host} sends its callers to the token server {realm:?}, which {rule}")]
    Realm {
        /// The registry.
        host: String,
        /// The token server, without query.
        realm: String,
        /// Why it is not asked.
        rule: &'static str,
    },
    /// The registry knows the caller and says no, or knows no such content.
    #[error("{host} answers {status} for {what}: {meaning}")]
    Refused {
        /// Host and port.
        host: String,
        /// Code and reason.
        status: String,
        /// The manifest or blob.
        what: String,
        /// What that commonly means.
        meaning: &'static str,
    },
    /// The server answered in a way that ends the pull.
    #[error("{host} {rule}")]
    Answer {
        /// Host and port.
        host: String,
        /// What is wrong.
        rule: String,
    },
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
    /// Received content is not the content asked for.
    #[error("{what} of {host} is not the content that the image names")]
    Content {
        /// Manifest, configuration.
        what: &'static str,
        /// Who sent it.
        host: String,
        /// What was expected and what came.
        source: Box<Mismatch>,
    },
    /// A verified manifest or configuration cannot be pulled.
    #[error("{what} {digest} {rule}")]
    Manifest {
        /// Index, manifest or configuration.
        what: &'static str,
        /// Its digest.
        digest: Digest,
        /// The rule that it breaks.
        rule: String,
    },
    /// A layer could not be unpacked.
    #[error("layer {digest} of {host}")]
    Layer {
        /// The digest of the blob.
        digest: Digest,
        /// Who sent it.
        host: String,
        /// What is wrong.
        source: Box<LayerError>,
    },
    /// The store has no room.
    #[error(
        "the layers need at least {needed_bytes} bytes, but the image store {store} has {free_bytes} free: give the pod more memory or the guest a larger image store",
        store = .store.display()
    )]
    StoreFull {
        /// The directory.
        store: PathBuf,
        /// Compressed size of the missing layers.
        needed_bytes: u64,
        /// What the file system says.
        free_bytes: u64,
    },
    /// The kernel refused something in the store or the bundle.
    #[error("cannot {action} {path}", path = .path.display())]
    File {
        /// A verb, such as `create`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The mirror failed, and so did the registry behind it.
    #[error("every source failed: {}", .0.iter().map(|(source, error)| format!("{source}: {}", chain(error))).collect::<Vec<_>>().join("; "))]
    Sources(Vec<(String, Error)>),
    /// A socket cannot be served or asked.
    #[error("socket {path} {rule}", path = .path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        rule: String,
    },
    /// The caller gave less time than the pull takes.
    #[error("the caller's deadline of {seconds} s passed before the image was there")]
    Deadline {
        /// The time that the caller gave.
        seconds: u64,
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

/// How many problems of a document an answer names; the rest are for `kata-configdev check` on the node.
const MAX_PROBLEMS: usize = 8;

/// The first problems on one line: an answer ends up in a pod's events, which hold about a kilobyte.
fn one_line(problems: &Problems) -> String {
    let all = problems.to_string();
    let mut lines = all.trim_end().lines();
    let mut text = lines
        .by_ref()
        .take(MAX_PROBLEMS)
        .collect::<Vec<_>>()
        .join("; ");
    let more = lines.count();
    if more > 0 {
        text.push_str(&format!(
            "; and {more} more, which `kata-configdev check` lists"
        ));
    }
    text
}

impl Error {
    /// Which kind of failure this is; for several sources that of the last one.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Reference { .. } | Self::NoDigest { .. } | Self::Bundle { .. } => Kind::Request,
            Self::ConfigurationUnreadable { .. }
            | Self::ConfigurationInvalid { .. }
            | Self::ConfigurationRefused { .. }
            | Self::Content { .. }
            | Self::Manifest { .. }
            | Self::Answer { .. }
            | Self::TooLarge { .. } => Kind::Data,
            Self::Layer { source, .. } if source.is_no_space() => Kind::Exhausted,
            Self::Layer { .. } => Kind::Data,
            Self::Forbidden { .. }
            | Self::PlainHttp { .. }
            | Self::CredentialsInClear { .. }
            | Self::CredentialsRefused { .. }
            | Self::CredentialsMissing { .. }
            | Self::Challenge { .. }
            | Self::Realm { .. }
            | Self::Refused { .. } => Kind::Denied,
            Self::Client { .. } | Self::Unreachable { .. } | Self::Certificate { .. } => {
                Kind::Unreachable
            }
            Self::StoreFull { .. } | Self::Deadline { .. } => Kind::Exhausted,
            Self::Sources(errors) => errors
                .last()
                .map_or(Kind::Internal, |(_, error)| error.kind()),
            Self::File { .. } | Self::Socket { .. } | Self::Internal(_) => Kind::Internal,
        }
    }

    /// Whether another source cannot help: what is wrong is on this side.
    pub fn is_local(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Request | Kind::Exhausted | Kind::Internal
        )
    }

    /// Makes a [`Error::File`] out of what the kernel said.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }
}

/// The whole chain of an error in one line.
pub fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        // Some libraries repeat the cause in their own message.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = error.source();
    }
    text.replace(['\n', '\r'], " ")
}
