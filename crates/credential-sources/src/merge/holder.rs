//! What a document says about a registry before anything is added.

use registry_config::{Registries, Registry, RegistryHost, RegistryName};

use super::{Decision, Winner};

/// The entry that holds for a name, and whether it may be given credentials.
#[derive(Clone, Debug)]
pub(super) struct Holder<'d> {
    /// The entry that has this very name, or else the one that a new entry would hide.
    base: Option<&'d RegistryName>,
    verdict: Verdict<'d>,
    /// Whether some entry trusts other certificate authorities than the web's.
    has_roots: bool,
}

#[derive(Clone, Debug)]
enum Verdict<'d> {
    /// Credentials may be added.
    Open,
    /// The document has some.
    Taken(&'d RegistryName),
    /// They would be sent to the mirror that this entry names.
    Lent(&'d RegistryName),
    /// A new entry would end what this one lends to the host as its mirror.
    Borrower(&'d RegistryName),
}

impl<'d> Holder<'d> {
    pub(super) fn of(registries: &'d Registries, name: &RegistryName) -> Self {
        if name.repositories().is_some() {
            return Self::of_repositories(registries, name);
        }
        let has_roots = registries.iter().any(|(_, entry)| has_roots_of_its_own(entry));
        let Some((base, entry)) = holding(registries, name) else {
            return Self {
                base: None,
                verdict: lender(registries, name).map_or(Verdict::Open, Verdict::Borrower),
                has_roots,
            };
        };
        let verdict = if !entry.credentials.is_anonymous() || entry.credentials_uri.is_some() {
            Verdict::Taken(base)
        } else if lends(registries, entry) {
            Verdict::Lent(base)
        } else if base == name {
            Verdict::Open
        } else {
            lender(registries, name).map_or(Verdict::Open, Verdict::Borrower)
        };
        Self { base: Some(base), verdict, has_roots: has_roots && !has_roots_of_its_own(entry) }
    }

    /// Of some repositories. An entry for them changes nothing of the way to their host, and no
    /// mirror is lent its credentials.
    fn of_repositories(registries: &'d Registries, name: &RegistryName) -> Self {
        let has_some = |(_, entry): &(&RegistryName, &Registry)| {
            !entry.credentials.is_anonymous() || entry.credentials_uri.is_some()
        };
        let same = registries.iter().find(|(known, _)| *known == name);
        let wider = || {
            let host = name.host()?;
            let mut entries = registries.repository_entries(&host, name.repositories()?);
            entries.next()
        };
        let holding = wider().or_else(|| holding(registries, &name.of_host()));
        Self {
            base: same.map(|(known, _)| known),
            verdict: holding
                .filter(has_some)
                .map_or(Verdict::Open, |(known, _)| Verdict::Taken(known)),
            has_roots: false,
        }
    }

    pub(super) fn base(&self) -> Option<&'d RegistryName> {
        self.base
    }

    /// What there is to say before any offer was looked at.
    pub(super) fn decision(&self, name: &RegistryName) -> Decision {
        let (winner, why) = match self.verdict {
            Verdict::Taken(entry) => (
                Winner::Document(entry.written()),
                "the document has credentials for it, and they win over every offer".to_owned(),
            ),
            _ => (Winner::Nobody, String::new()),
        };
        Decision::new(name.to_string(), winner, why)
    }

    /// Whether the document has credentials for it.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.verdict, Verdict::Taken(_))
    }

    /// Why nothing may be added.
    pub(super) fn refusal(&self) -> Option<String> {
        match self.verdict {
            Verdict::Open => None,
            Verdict::Taken(entry) => {
                Some(format!("the document's entry \"{}\" has credentials", entry.written()))
            }
            Verdict::Lent(entry) => Some(format!(
                "the document's entry \"{}\" names a mirror, which would be sent the credentials; \
                give the mirror an entry \
                 of its own",
                entry.written()
            )),
            Verdict::Borrower(entry) => Some(format!(
                "it is the mirror of the document's entry \"{}\", whose settings it would lose by \
                an entry of its own; write \
                 one into the document, even an empty one, to have credentials added to it",
                entry.written()
            )),
        }
    }

    /// What a new entry changes beside the credentials.
    pub(super) fn change(&self, name: &RegistryName) -> Option<&'static str> {
        (self.has_roots && name.is_literal()).then_some(
            "with an entry of its own it is trusted by the web's certificate authorities even \
            where a registry with ca-certs sends \
             the puller to it; write an entry for it into the document if that must not be",
        )
    }

    /// Why an offer wins.
    pub(super) fn reason(&self, name: &RegistryName) -> String {
        match self.base {
            None => "the document has no entry for it".to_owned(),
            Some(base) if base == name => {
                format!("the document's entry \"{}\" has no credentials", base.written())
            }
            Some(base) => format!(
                "the document's entry \"{}\" has no credentials; its other settings hold for the \
                new entry too",
                base.written()
            ),
        }
    }
}

/// The name of the entry that an offer for `name` is put into.
///
/// A name without a port is offered for the registry on port 443. Where the document has an entry
/// for that port, a new one without a port would hold for all the other ports and for that one not.
pub(super) fn entry_name(registries: &Registries, name: RegistryName) -> RegistryName {
    let on_https = with_https_port(&name);
    let has_entry = registries.iter().any(|(known, _)| *known == on_https);
    if has_entry { on_https } else { name }
}

/// Whether an entry is for some repositories of `host` and has no credentials.
pub(super) fn is_open_below(
    (name, entry): (&RegistryName, &Registry),
    host: &RegistryHost,
) -> bool {
    let is_its =
        |one: RegistryHost| one == *host || (!name.has_port() && one.name() == host.name());
    let is_below = name.repositories().is_some() && name.host().is_some_and(is_its);
    is_below && entry.credentials.is_anonymous() && entry.credentials_uri.is_none()
}

/// The name of a single host with port 443 where it has none; any other as it is. Equal for equal
/// [`RegistryHost`]s.
pub(crate) fn with_https_port(name: &RegistryName) -> RegistryName {
    if !name.is_literal() || name.has_port() {
        return name.clone();
    }
    let host = name.of_host();
    let with_port = match name.repositories() {
        Some(repositories) => format!("{host}:443/{repositories}"),
        None => format!("{host}:443"),
    };
    RegistryName::parse(&with_port).unwrap_or_else(|_| name.clone())
}

/// The document's entry that an entry for `name` would take the place of: the one that holds for
/// it, or the one that names it as its mirror and lends it its settings.
pub(crate) fn holds_for<'d>(
    registries: &'d Registries,
    name: &RegistryName,
) -> Option<&'d RegistryName> {
    let holding = holding(registries, &entry_name(registries, name.clone()));
    let holding = holding.map(|(known, _)| known);
    holding.or_else(|| lender(registries, name))
}

/// The entry with this very name, or else the most specific one that holds for everything that it
/// stands for.
fn holding<'d>(
    registries: &'d Registries,
    name: &RegistryName,
) -> Option<(&'d RegistryName, &'d Registry)> {
    if let Some(same) = registries.iter().find(|(known, _)| *known == name) {
        return Some(same);
    }
    if name.is_any() {
        return None;
    }
    let shown = name.to_string();
    if name.is_literal() {
        let host = RegistryHost::parse(&shown).ok()?;
        return registries
            .matches(&host)
            // An entry for one port is no statement about the others.
            .find(|(known, _)| name.has_port() || !known.has_port());
    }
    // Each host below a suffix is below the shorter ones too; names in their normal form end alike.
    registries
        .iter()
        .map(|(known, entry)| (known.to_string(), known, entry))
        .filter(|(text, known, _)| !known.is_literal() && shown.ends_with(text.as_str()))
        .max_by_key(|(text, ..)| text.len())
        .map(|(_, known, entry)| (known, entry))
}

/// Whether an entry trusts other certificate authorities than the web's.
fn has_roots_of_its_own(entry: &Registry) -> bool {
    entry.ca_certs.is_some() || entry.ca_certs_uri.is_some()
}

/// Whether an entry's credentials go to a mirror.
fn lends(registries: &Registries, entry: &Registry) -> bool {
    let mut mirrors = entry.mirrors.iter();
    mirrors.any(|mirror| registries.literal_entry_for(mirror.host()).is_none())
}

/// The entry that names a host of this name as its mirror and lends it its settings.
fn lender<'d>(registries: &'d Registries, name: &RegistryName) -> Option<&'d RegistryName> {
    let is_mirror = |entry: &Registry| {
        entry.mirrors.iter().any(|mirror| {
            let host = mirror.host();
            let port = host.port().unwrap_or(443);
            [host.name(), format!("{}:{port}", host.name())]
                .iter()
                .any(|literal| RegistryName::parse(literal).as_ref() == Ok(name))
        })
    };
    registries
        .iter()
        .find(|(_, entry)| is_mirror(entry) && lends(registries, entry))
        .map(|(key, _)| key)
}
