//! An entry that is in charge, and the words that tell a reader which, and who wrote it.

use std::fmt;
use std::path::{Path, PathBuf};

use registry_config::{Credentials, Origin, Registry, RegistryName, Roots};

use crate::error::Error;
use crate::reason::Reason;

/// An entry of a document, or the defaults.
#[derive(Clone, Debug)]
pub struct Authority {
    /// What holds.
    pub registry: Registry,
    /// Which entry it is.
    pub name: EntryName,
    /// The entry for the repository, whose credentials hold instead of those of `registry`, and
    /// nothing else of it.
    pub(crate) access: Option<Box<(EntryName, Registry)>>,
    /// The host's entry whose credentials `registry` has, where the entry itself is the owner's and
    /// says nothing of who the puller is.
    pub(crate) lender: Option<EntryName>,
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
    /// None of the documents at these paths has one; one may have a name that comes near.
    NoEntry(Vec<PathBuf>, Option<RegistryName>),
    /// There is no document at this path.
    NoDocument(PathBuf),
}

impl Authority {
    pub(crate) fn new(name: EntryName, registry: Registry) -> Self {
        Self {
            registry,
            name,
            access: None,
            lender: None,
            has_fetched_roots: false,
            is_confidential: false,
            has_fetched_credentials: false,
        }
    }

    /// Which document says how the host is reached, if one says anything.
    pub fn origin(&self) -> Option<Origin> {
        let own = self.name.origin();
        own.or_else(|| self.credentials_name().origin())
    }

    /// Which document says who the puller is, if one says anything.
    pub fn credentials_origin(&self) -> Option<Origin> {
        let of_credentials = self.credentials_name().origin();
        of_credentials.or_else(|| self.name.origin())
    }

    /// The entry that says who the puller is.
    pub fn credentials_name(&self) -> &EntryName {
        let access = self.access.as_deref();
        access.map_or_else(|| self.lendable_name(), |(name, _)| name)
    }

    /// The entry whose credentials a mirror is lent.
    pub fn lendable_name(&self) -> &EntryName {
        self.lender.as_ref().unwrap_or(&self.name)
    }

    /// The entries of which something holds.
    pub fn entries(&self) -> impl Iterator<Item = &EntryName> {
        [&self.name, self.lendable_name(), self.credentials_name()].into_iter()
    }

    /// Why the host's credentials go where the owner's entry leads, if they do.
    pub fn combined(&self) -> Option<Reason> {
        let is_combined = self.origin() != self.credentials_origin();
        is_combined.then(|| Reason::HostCredentials {
            entry: self.credentials_name().clone(),
            way: self.name.clone(),
        })
    }

    /// Completes an entry of the owner that says nothing of who the puller is by what the host's
    /// document says of that. The host may give its own credentials to whom the owner trusts; how
    /// the host is reached stays the owner's word alone.
    pub(crate) fn completed_by(self, host: Option<Self>) -> Self {
        let Some(host) = host.filter(|_| !self.says_who()) else {
            return self;
        };
        let lender = host.name.origin().map(|_| host.name);
        Self {
            registry: self.registry.with_credentials_of(&host.registry),
            access: host.access,
            lender,
            ..self
        }
    }

    /// Whether the owner's document itself says who the puller is.
    pub(crate) fn says_who(&self) -> bool {
        let is_measured = |(name, _): &(EntryName, _)| name.origin() == Some(Origin::Measured);
        self.access.as_deref().is_some_and(is_measured)
            || self.lender.is_none() && self.registry.says_who()
    }

    /// What it says; of all that is in it, only the credentials count.
    pub fn credentials_entry(&self) -> &Registry {
        let access = self.access.as_deref();
        access.map_or(&self.registry, |(_, entry)| entry)
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.origin() == Some(Origin::Measured)
    }

    /// What counts of it in a confidential pull, without credentials.
    pub(crate) fn confidential(&self) -> Self {
        let origin = self.origin().unwrap_or(Origin::Host);
        let mut registry = self.registry.in_confidential_pull(origin);
        if self.lender.is_some() {
            registry.client = None;
        }
        let access = self.access.as_deref().map(|(name, entry)| {
            let entry = entry.in_confidential_pull(name.origin().unwrap_or(Origin::Host));
            Box::new((name.clone(), entry))
        });
        Self {
            is_confidential: true,
            access,
            lender: self.lender.clone(),
            ..Self::new(self.name.clone(), registry)
        }
    }

    /// Leaves out who the puller is; whose word that was stays.
    pub(crate) fn forget_credentials(&mut self) {
        let access = self.access.as_mut().map(|access| &mut access.1);
        for entry in [Some(&mut self.registry), access].into_iter().flatten() {
            entry.credentials_uri = None;
            entry.credentials = Credentials::Anonymous;
        }
    }

    /// What it lends to its mirror: the credentials of the host's entry, never those that are for
    /// some repositories.
    pub(crate) fn lent(&self) -> Self {
        Self { registry: self.registry.lent_to_mirror(), access: None, ..self.clone() }
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
        if self.registry.ca_certs.as_ref().is_some_and(Roots::trusts_nobody) {
            let (host, reason) = (host.to_owned(), Box::new(self.roots()));
            return Err(Error::Forbidden { host, reason });
        }
        Ok(())
    }

    /// Why the web's roots hold: the entry has none of its own, or there is no entry.
    fn no_roots(&self) -> String {
        match &self.name {
            EntryName::Entry(_, Origin::Host) if self.is_confidential => {
                let reference = self.credentials_name();
                let roots = match self.access {
                    None => "no \"ca-certs-uri\" beside it".to_owned(),
                    Some(_) => format!("{self} no \"ca-certs-uri\""),
                };
                format!("{reference} has \"credentials-uri\" and {roots}")
            }
            EntryName::Entry(..) => format!("{self} has no \"ca-certs\""),
            _ => self.to_string(),
        }
    }

    /// Whether its credentials were fetched by reference, so that the host is not told a thing of
    /// them.
    pub fn is_fetched(&self) -> bool {
        self.has_fetched_credentials
    }

    /// Where its credentials are from, and where a person corrects them.
    pub fn credentials_source(&self) -> (String, &'static str) {
        if self.has_fetched_credentials {
            let source = format!("what \"credentials-uri\" of {} names", self.credentials_name());
            return (source, "in that resource");
        }
        let place = match self.credentials_origin() {
            Some(Origin::Measured) => "in the measured imagepuller.toml or cdh.toml",
            _ => "in the node's imagepuller.toml",
        };
        (self.credentials_name().to_string(), place)
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

impl EntryName {
    /// Whose document the entry is in, if it is one.
    pub fn origin(&self) -> Option<Origin> {
        match self {
            Self::Entry(_, origin) => Some(*origin),
            Self::NoEntry(..) | Self::NoDocument(_) => None,
        }
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(key, Origin::Host) => write!(f, "entry \"{key}\""),
            Self::Entry(key, Origin::Measured) => write!(f, "measured entry \"{key}\""),
            Self::NoEntry(paths, near) => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "no entry of {} matches this host", paths.join(" or "))?;
                let Some(near) = near else {
                    return Ok(());
                };
                if near.has_port() {
                    return write!(f, " (\"{near}\" holds for that port alone)");
                }
                write!(
                    f,
                    " (\"{near}\" holds for that host alone; hosts below it need \".{near}\")"
                )
            }
            // A person's own pull, without `--config`.
            Self::NoDocument(path) if path == Path::new("") => {
                f.write_str("no configuration was given")
            }
            Self::NoDocument(path) => {
                write!(f, "no configuration disk was found, {} does not exist", path.display())
            }
        }
    }
}
