//! An entry that is in charge, and the words that tell a reader which, and who wrote it.

use std::fmt;
use std::path::{Path, PathBuf};

use puller_config::{Origin, Registry, RegistryName, Roots};

use crate::error::Error;
use crate::reason::Reason;

/// An entry of a document, or the defaults.
#[derive(Clone, Debug)]
pub struct Authority {
    /// What holds.
    pub registry: Registry,
    /// Which entry it is.
    pub name: EntryName,
    /// Whether its CAs were fetched by reference.
    pub(crate) has_fetched_roots: bool,
    /// Whether it holds for a pull with credentials that are fetched by reference.
    pub(crate) is_confidential: bool,
    /// Whether its own credentials are among them.
    pub(crate) has_fetched_credentials: bool,
}

/// Which entry it is, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryName {
    /// An entry, and who wrote it.
    Entry(RegistryName, Origin),
    /// None of the documents at these paths has one.
    NoEntry(Vec<PathBuf>),
    /// There is no document at this path.
    NoDocument(PathBuf),
}

impl Authority {
    pub(crate) fn new(name: EntryName, registry: Registry) -> Self {
        Self {
            registry,
            name,
            has_fetched_roots: false,
            is_confidential: false,
            has_fetched_credentials: false,
        }
    }

    /// Which document the entry is in, if there is an entry.
    pub fn origin(&self) -> Option<Origin> {
        match &self.name {
            EntryName::Entry(_, origin) => Some(*origin),
            EntryName::NoEntry(_) | EntryName::NoDocument(_) => None,
        }
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.origin() == Some(Origin::Measured)
    }

    /// What counts of it in a confidential pull, without credentials.
    pub(crate) fn confidential(&self) -> Self {
        let origin = self.origin().unwrap_or(Origin::Host);
        let registry = self.registry.in_confidential_pull(origin);
        Self {
            is_confidential: true,
            ..Self::new(self.name.clone(), registry)
        }
    }

    /// What it lends to its mirror.
    pub(crate) fn lent(&self) -> Self {
        Self {
            registry: self.registry.lent_to_mirror(),
            ..self.clone()
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

    /// Which roots are trusted, and by which entry.
    pub fn roots(&self) -> Reason {
        let entry = self.name.clone();
        match &self.registry.ca_certs {
            _ if self.has_fetched_roots || self.registry.ca_certs_uri.is_some() => {
                Reason::FetchedRoots(entry)
            }
            Some(roots) if roots.trusts_nobody() => Reason::NoRoots(entry),
            Some(roots) => Reason::GivenRoots {
                count: roots.certificates().len(),
                is_beside_web: roots.is_beside_web(),
                entry,
            },
            None => Reason::WebRoots(self.no_roots()),
        }
    }

    /// Whether the host may be asked at all.
    ///
    /// # Errors
    ///
    /// [`Error::Unresolved`] as of [`Authority::check_roots`], [`Error::Forbidden`] where nobody is
    /// trusted.
    pub fn check_allowed(&self, host: &str) -> Result<(), Error> {
        self.check_roots()?;
        if self
            .registry
            .ca_certs
            .as_ref()
            .is_some_and(Roots::trusts_nobody)
        {
            let (host, reason) = (host.to_owned(), Box::new(self.roots()));
            return Err(Error::Forbidden { host, reason });
        }
        Ok(())
    }

    /// Why the web's roots hold: the entry has none of its own, or there is no entry.
    fn no_roots(&self) -> String {
        match &self.name {
            EntryName::Entry(_, Origin::Host) if self.is_confidential => {
                format!("{self} has \"credentials-uri\" and no \"ca-certs-uri\" beside it")
            }
            EntryName::Entry(..) => format!("{self} has no \"ca-certs\""),
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
            Some(Origin::Measured) => "in the measured imagepuller.toml or cdh.toml",
            _ => "in the node's imagepuller.toml",
        };
        (self.to_string(), place)
    }

    /// Why plain HTTP is not spoken.
    pub fn no_plain_http(&self) -> Reason {
        if self.is_confidential {
            Reason::NeverPlainHttp
        } else {
            Reason::NoPlainHttp(self.name.clone())
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(key, Origin::Host) => write!(f, "entry \"{key}\""),
            Self::Entry(key, Origin::Measured) => write!(f, "measured entry \"{key}\""),
            Self::NoEntry(paths) => {
                let paths: Vec<_> = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                write!(f, "no entry of {} matches this host", paths.join(" or "))
            }
            // A person's own pull, without `--config`.
            Self::NoDocument(path) if path == Path::new("") => {
                f.write_str("no configuration was given")
            }
            Self::NoDocument(path) => {
                write!(
                    f,
                    "no configuration disk was found, {} does not exist",
                    path.display()
                )
            }
        }
    }
}
