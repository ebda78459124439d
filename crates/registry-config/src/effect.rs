//! What a document says that is valid, and probably not meant.

use thiserror::Error;

/// What a warning says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Effect {
    /// A reason instead of a document.
    #[error("makes the guest refuse every pull with this text as the reason")]
    RefusesEveryPull,
    /// A variable that the puller does not know.
    #[error("has no effect: only HTTP_PROXY, HTTPS_PROXY and NO_PROXY do, in upper or lower case")]
    UnknownVariable,
    /// A proxy over HTTP without a port.
    #[error("has no port, so that the proxy is asked at port 80; write it, as in :3128")]
    ProxyWithoutPort,
    /// An item of `NO_PROXY` that matches no host.
    #[error(
        "has an item that matches no host: each is a host, .domain, IP address or CIDR, with \
        commas between them"
    )]
    UselessException,
    /// A credential beside a stronger one.
    #[error("has no effect beside \"{stronger}\"")]
    Superseded {
        /// The key that is used.
        stronger: &'static str,
    },
    /// Credentials and `plain-http`.
    #[error("sends the credentials unencrypted where the registry answers over plain HTTP")]
    CredentialsInTheClear,
    /// Credentials and `insecure-skip-verify`.
    #[error("sends the credentials to whoever answers in the registry's place")]
    CredentialsToAnyone,
    /// Credentials of the entry for every host.
    #[error("sends the credentials to every registry without an entry of its own")]
    CredentialsEverywhere,
    /// Only pinned images may run, and there are none.
    #[error("makes the guest refuse every image, because [pins] has none")]
    NothingPinned,
    /// A list of decryption keys without one.
    #[error("has no key, so that it opens no image; leave it out, or give it one")]
    NoDecryptionKeys,
    /// Roots without a certificate.
    #[error("has no PEM certificate: nobody is trusted, which forbids the registry")]
    TrustsNobody,
    /// Roots of a host that is not verified.
    #[error(
        "does not hold for the registry's own host because of \"insecure-skip-verify\", only for \
        the other hosts of a pull"
    )]
    RootsUnused,
    /// What a confidential pull does not take from the document.
    #[error("has no effect on a pull that uses \"credentials-uri\"")]
    NotWithReference,
    /// A secret in the measured document.
    #[error(
        "is known to the host and to everyone who verifies the guest, because measured data is \
        public; refer to it instead"
    )]
    Published,
    /// The host of a reference.
    #[error(
        "names the host of a broker, which is ignored: the CDH of the guest knows its broker; \
        write \"kbs:///\""
    )]
    HostOfBroker,
    /// A client certificate for a host that is not verified.
    #[error("keeps the client certificate back: it is shown to verified hosts only")]
    ClientUnused,
    /// A client certificate of the host in a confidential pull.
    #[error("has a client certificate, which is not shown in a pull that uses \"credentials-uri\"")]
    ClientNotWithReference,
    /// The suffix that does not match Docker Hub.
    #[error("does not match Docker Hub itself, whose name is \"docker.io\" in all its spellings")]
    NotDockerHub,
}
