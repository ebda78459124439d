//! Why a pull takes its way: the words that `explain`, `check` and the errors of a pull share.

use registry_config::{Effect, RegistryHost, RegistryName};
use thiserror::Error;

use crate::settings::EntryName;

/// Why something in a [`Plan`](crate::Plan) is as it is. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// Why an entry is in charge of a host.
    #[error("{}", in_charge(.name, .host))]
    InCharge {
        /// The entry's name.
        name: RegistryName,
        /// The registry's host.
        host: RegistryHost,
    },
    /// No entry is in charge, so the defaults hold.
    #[error("no entry matches {0}")]
    NoEntry(RegistryHost),
    /// Why an entry that matches too is not in charge: the name with the port is.
    #[error("the name with the port is more specific")]
    LosesToPort,
    /// Why `.` is not in charge.
    #[error("every other name is more specific")]
    LosesToAll,
    /// Why a suffix is not in charge.
    #[error("a host's own name, and a longer suffix, are more specific")]
    LosesToName,
    /// Why an entry for some repositories says nothing of who the puller is.
    #[error("an entry for more of the repository's name, or for the host's port, is more specific")]
    LosesToRepositories,
    /// Why an entry of the host is not in charge.
    #[error("the measured document has an entry for this host")]
    LosesToMeasured,
    /// Why an entry of the host says who the puller is where another one shows the way.
    #[error("{entry} says who the puller is, because {way} says nothing of that")]
    HostCredentials {
        /// The host's entry.
        entry: EntryName,
        /// The owner's.
        way: EntryName,
    },
    /// The owner wants no credentials.
    #[error("{0} wants none (\"anonymous = true\")")]
    WantsAnonymous(EntryName),
    /// The entry in charge of a source has no credentials, or there is no entry.
    #[error("{}", no_credentials(.0))]
    NoCredentials(EntryName),
    /// The entry's credentials go to its mirror.
    #[error(
        "{entry} lends its credentials to the mirror {mirror}, so none are left for the registry \
        itself"
    )]
    LentAway {
        /// The entry that names the mirror.
        entry: EntryName,
        /// The mirror's host and port.
        mirror: String,
    },
    /// The entry's reference is not that of the pull.
    #[error(
        "what \"credentials-uri\" of {0} names is not fetched where other credentials are used"
    )]
    ReferenceUnused(EntryName),
    /// The fetched configuration has nothing for a mirror.
    #[error("what \"credentials-uri\" of {entry} names has no credentials for {host}")]
    NotFetched {
        /// The entry with the reference, in words.
        entry: String,
        /// The mirror's host and port.
        host: String,
    },
    /// Public roots hold.
    #[error("the web's public roots: {0}")]
    WebRoots(String),
    /// The entry's roots hold.
    #[error("{}the {count} in \"ca-certs\" of {entry}", with_web(*.is_beside_web))]
    GivenRoots {
        /// How many there are.
        count: usize,
        /// Whether the web's hold too.
        is_beside_web: bool,
        /// The entry.
        entry: EntryName,
    },
    /// Roots that are fetched hold.
    #[error("only those that \"ca-certs-uri\" of {0} names")]
    FetchedRoots(EntryName),
    /// Nobody is trusted.
    #[error("none: \"ca-certs\" of {0} holds no certificate and so forbids the host")]
    NoRoots(EntryName),
    /// Plain HTTP is not spoken.
    #[error("{0} does not allow plain HTTP (\"plain-http = true\")")]
    NoPlainHttp(EntryName),
    /// Plain HTTP is never spoken in a confidential pull.
    #[error("a pull with confidential credentials is over TLS only")]
    NeverPlainHttp,
    /// Credentials are not sent over plain HTTP.
    #[error("{0} does not allow credentials over plain HTTP (\"plain-http = true\")")]
    NotInClear(EntryName),
    /// A proxy of the documents is asked.
    #[error("through the proxy {0} of [extra-env]")]
    Proxied(String),
    /// The proxy is not asked.
    #[error("not through the proxy {0}: NO_PROXY or Go's rule for loopback excepts this host")]
    Excepted(String),
    /// There is no proxy for the scheme.
    #[error("directly: [extra-env] has no proxy for it")]
    NoProxy,
    /// What a key of the entry does.
    #[error(transparent)]
    Effect(#[from] Effect),
}

impl Reason {
    /// Why an entry of the same document that matches too is not in charge.
    pub fn loses(name: &RegistryName) -> Self {
        // A literal with a port is never here: nothing beats it.
        if name.repositories().is_some() {
            Self::LosesToRepositories
        } else if name.is_literal() {
            Self::LosesToPort
        } else if name.is_any() {
            Self::LosesToAll
        } else {
            Self::LosesToName
        }
    }
}

fn with_web(is_beside_web: bool) -> &'static str {
    match is_beside_web {
        true => "the web's public roots and ",
        false => "only ",
    }
}

fn in_charge(name: &RegistryName, host: &RegistryHost) -> String {
    let because = if name.has_port() {
        "is this host's name with its port; nothing is more specific"
    } else if name.is_literal() {
        "is this host's name, on every port; no entry names it with its port"
    } else if name.is_any() {
        "matches every host; no entry is more specific"
    } else {
        "is the longest suffix that this host is below; no entry names the host itself"
    };
    let mut text = format!("\"{}\" {because}", name.written());
    if name.has_port() && host.port().is_none() {
        text.push_str(" (a host without a port is at port 443)");
    }
    text
}

fn no_credentials(entry: &EntryName) -> String {
    match entry {
        EntryName::Entry(..) => format!("{entry} has no credentials"),
        _ => entry.to_string(),
    }
}
