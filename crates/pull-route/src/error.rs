//! Why the documents allow no way to a registry, or to a host that it sends the puller to.

use std::net::IpAddr;

use registry_config::{NodeError, Rule};
use thiserror::Error;

use crate::reason::Reason;

/// A rule that ends a pull before a host is asked. The messages hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The node has a reason instead of a document. It counts for every image, also where the
    /// measured document says all that a pull needs: a guest that pulls some of its images would
    /// hide from its owner that the node failed.
    #[error("the node has no configuration and nothing is pulled without it; the node says: {0}")]
    NodeError(NodeError),
    /// What was fetched confidentially is not for this pull. Says nothing of what is in it: the
    /// message is the host's to read, and the host may have named another secret than the one that
    /// was meant.
    #[error(
        "what \"credentials-uri\" of {authority} names is not used for {registry}, and nothing is \
        pulled without it: {rule}"
    )]
    UnfitCredentials {
        /// The registry of the image, or its mirror.
        registry: String,
        /// The entry with the reference.
        authority: String,
        /// What is missing.
        rule: String,
    },
    /// Confidential credentials and a mirror in clear.
    #[error(
        "{authority} has \"credentials-uri\" and the mirror http://{host}, but a pull with \
        confidential credentials is over TLS only: give the mirror an https address"
    )]
    MirrorInClear {
        /// The mirror.
        host: String,
        /// The measured entry.
        authority: String,
    },
    /// The CAs of a token server, of a host for blobs or of a proxy are elsewhere.
    #[error(
        "{authority} has \"ca-certs-uri\", which is fetched for the registry that an image names \
        and for no other host; write \"ca-certs\" there"
    )]
    Unresolved {
        /// The entry.
        authority: String,
    },
    /// A mirror with a reference of its own. A document that has both entries is refused as a
    /// whole; here they are in two documents.
    #[error("the mirror {mirror} cannot be asked by {authority}: {rule}")]
    MirrorReference {
        /// The mirror.
        mirror: String,
        /// The mirror's own entry.
        authority: String,
        /// What is wrong with the reference.
        rule: Box<Rule>,
    },
    /// A repository that has no name at the last mirror that is asked.
    #[error(
        "the mirror {mirror} cannot be asked for {repository} by {authority}: it would have a name \
        there that no repository has"
    )]
    NoName {
        /// The mirror.
        mirror: String,
        /// The entry that names it.
        authority: String,
        /// The repository of the image.
        repository: String,
    },
    /// A repository that nobody is asked for.
    #[error("{image} is forbidden: {authority} says that nobody is asked for {prefix:?}")]
    Blocked {
        /// The image's registry and repository.
        image: String,
        /// The entry.
        authority: String,
        /// What the entry has of the repository's name.
        prefix: String,
    },
    /// The entry trusts nobody.
    #[error("{host} is forbidden; trusted roots: {reason}")]
    Forbidden {
        /// Host and port.
        host: String,
        /// The entry.
        reason: Box<Reason>,
    },
    /// A host, or a proxy, whose address is in a [`Vicinity`](crate::address::Vicinity).
    #[error(
        "{host} is at {address}, an address that only the guest or its cloud uses, and the owner \
        does not name it: if it is meant, write host and port into the measured \
        imagepuller.toml, as an entry, a mirror or a proxy"
    )]
    Near {
        /// Host and port, or the proxy in words.
        host: String,
        /// What its name or look-up gave.
        address: IpAddr,
    },
    /// A registry that no URL can name.
    #[error("cannot set up a connection to {host}: {reason}")]
    Address {
        /// The registry.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Plain HTTP where nothing allows it.
    #[error("{host} is only to be asked over plain HTTP, but {reason}")]
    PlainHttp {
        /// Host and port.
        host: String,
        /// What forbids it.
        reason: Box<Reason>,
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
    /// A rule of this program's own does not hold.
    #[error("internal error: {0}")]
    Internal(String),
}
