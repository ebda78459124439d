//! An entry that is in charge, and the words that tell a reader which, and who wrote it.

use std::fmt;
use std::path::{Path, PathBuf};

use puller_config::Registry;

use super::Origin;
use crate::error::Error;

/// The keys of references.
const CREDENTIALS_URI: &str = "credentials-uri";
const CA_CERTS_URI: &str = "ca-certs-uri";

/// An entry of a document, or the defaults.
#[derive(Clone, Debug)]
pub struct Authority {
    /// What holds.
    pub registry: Registry,
    pub(super) name: AuthorityName,
    /// Whether its CAs were fetched by reference.
    pub(super) has_fetched_roots: bool,
    /// Whether it holds for a pull with credentials that were fetched by reference.
    pub(super) is_confided: bool,
    /// Whether its own credentials are among them.
    pub(super) has_fetched_credentials: bool,
}

#[derive(Clone, Debug)]
pub(super) enum AuthorityName {
    Entry(String, Origin),
    NoEntry(Vec<PathBuf>),
    NoDocument(PathBuf),
}

impl Authority {
    pub(super) fn new(name: AuthorityName, registry: Registry) -> Self {
        Self {
            registry,
            name,
            has_fetched_roots: false,
            is_confided: false,
            has_fetched_credentials: false,
        }
    }

    /// Which document the entry is in, if there is an entry.
    pub fn origin(&self) -> Option<Origin> {
        match &self.name {
            AuthorityName::Entry(_, origin) => Some(*origin),
            AuthorityName::NoEntry(_) | AuthorityName::NoDocument(_) => None,
        }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.origin() == Some(Origin::Measured)
    }

    /// The key of a reference that was not fetched. Without it nothing is asked: that would be
    /// anonymously, or trusting the web.
    pub fn unresolved(&self) -> Option<&'static str> {
        if self.registry.credentials_uri.is_some() {
            Some(CREDENTIALS_URI)
        } else {
            self.registry.ca_certs_uri.is_some().then_some(CA_CERTS_URI)
        }
    }

    /// Whether its roots are at hand, where it is that of a host that a source sends the puller to,
    /// or of a proxy.
    ///
    /// # Errors
    ///
    /// [`Error::Unresolved`]: only what concerns the registry of the image is fetched.
    pub fn check_roots(&self) -> Result<(), Error> {
        if self.registry.ca_certs_uri.is_none() {
            return Ok(());
        }
        let authority = self.to_string();
        Err(Error::Unresolved { authority })
    }

    /// Where its roots are from.
    pub fn roots_source(&self) -> String {
        if self.has_fetched_roots {
            format!("what \"ca-certs-uri\" of {self} names")
        } else {
            format!("\"ca-certs\" of {self}")
        }
    }

    /// Why the web's roots hold: the entry has none of its own, or there is no entry.
    pub fn no_roots(&self) -> String {
        match &self.name {
            AuthorityName::Entry(_, Origin::Configuration) if self.is_confided => {
                format!("{self} has \"credentials-uri\" and no \"ca-certs-uri\" beside it")
            }
            AuthorityName::Entry(..) => format!("{self} has no \"ca-certs\""),
            _ => self.to_string(),
        }
    }

    /// Where its credentials are from, and where a person corrects them.
    pub fn credentials_source(&self) -> (String, &'static str) {
        if self.has_fetched_credentials {
            let source = format!("what \"credentials-uri\" of {self} names");
            return (source, "in that resource");
        }
        let place = match self.origin() {
            Some(Origin::Measured) => "in the measured imagepuller.toml",
            _ => "in the node's imagepuller.toml",
        };
        (self.to_string(), place)
    }

    /// Why plain HTTP is not spoken.
    pub fn no_plain_http(&self) -> String {
        if self.is_confided {
            "which a pull with confidential credentials never is".to_owned()
        } else {
            format!("which {self} does not allow (\"plain-http = true\")")
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            AuthorityName::Entry(key, Origin::Configuration) => write!(f, "entry {key:?}"),
            AuthorityName::Entry(key, Origin::Measured) => write!(f, "measured entry {key:?}"),
            AuthorityName::NoEntry(paths) => {
                let paths: Vec<_> = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                write!(f, "no entry of {} matches this host", paths.join(" or "))
            }
            // A person's own pull, without `--config`.
            AuthorityName::NoDocument(path) if path == Path::new("") => {
                f.write_str("no configuration was given")
            }
            AuthorityName::NoDocument(path) => {
                write!(
                    f,
                    "no configuration disk was found, {} does not exist",
                    path.display()
                )
            }
        }
    }
}
