//! What a document says about a registry before anything is added.

use registry_config::{Registries, Registry, RegistryHost, RegistryName, is_below};

/// The entry that holds for a name, and whether it may be given credentials.
#[derive(Debug, Default)]
pub(super) struct Holder<'d> {
    /// The entry that has this very name, or else the one that a new entry would hide.
    pub(super) base: Option<&'d RegistryName>,
    /// The entry that has credentials for it.
    pub(super) taken: Option<&'d RegistryName>,
    /// Why nothing may be added.
    pub(super) refusal: Option<String>,
    /// Whether only other entries trust other certificate authorities than the web's.
    has_roots: bool,
}

impl<'d> Holder<'d> {
    pub(super) fn of(registries: &'d Registries, name: &RegistryName) -> Self {
        if name.repositories().is_some() {
            return Self::of_repositories(registries, name);
        }
        let holding = holding(registries, name);
        let of_others = registries.iter().any(|(_, entry)| has_roots_of_its_own(entry));
        let has_roots = of_others && !holding.is_some_and(|(_, entry)| has_roots_of_its_own(entry));
        let base = holding.map(|(known, _)| known);
        if let Some(taken) = holding.filter(has_credentials) {
            return Self { base, ..Self::taken(taken) };
        }
        let lent = holding.filter(|(_, entry)| lends(registries, entry));
        let refusal = match lent {
            Some((entry, _)) => Some(format!(
                "the document's entry \"{}\" names a mirror, which would be sent the credentials; \
                give the mirror an entry of its own",
                entry.written()
            )),
            None if base == Some(name) => None,
            None => lender(registries, name).map(|entry| {
                format!(
                    "it is the mirror of the document's entry \"{}\", whose settings it would \
                    lose by an entry of its own; write one into the document, even an empty one, \
                    to have credentials added to it",
                    entry.written()
                )
            }),
        };
        Self { base, refusal, has_roots, taken: None }
    }

    /// Of some repositories. An entry for them changes nothing of the way to their host, and no
    /// mirror is lent its credentials.
    fn of_repositories(registries: &'d Registries, name: &RegistryName) -> Self {
        let wider = || {
            let host = name.host()?;
            let mut entries = registries.repository_entries(&host, name.repositories()?);
            entries.next()
        };
        let holding = wider().or_else(|| holding(registries, &name.of_host()));
        let base = registries.iter().map(|(known, _)| known).find(|known| *known == name);
        Self { base, ..holding.filter(has_credentials).map(Self::taken).unwrap_or_default() }
    }

    fn taken((entry, _): (&'d RegistryName, &Registry)) -> Self {
        let refusal = format!("the document's entry \"{}\" has credentials", entry.written());
        Self { taken: Some(entry), refusal: Some(refusal), ..Self::default() }
    }

    /// What a new entry changes beside the credentials.
    pub(super) fn change(&self, name: &RegistryName) -> Option<&'static str> {
        (self.has_roots && name.is_literal()).then_some(
            "with an entry of its own it is trusted by the web's certificate authorities even \
            where a registry with ca-certs sends the puller to it; write an entry for it into the \
            document if that must not be",
        )
    }

    /// Why an offer wins.
    pub(super) fn reason(&self, name: &RegistryName) -> String {
        let Some(base) = self.base else {
            return "the document has no entry for it".to_owned();
        };
        let settings = match base == name {
            true => "",
            false => "; its other settings hold for the new entry too",
        };
        format!("the document's entry \"{}\" has no credentials{settings}", base.written())
    }
}

/// Whether a document has credentials for all of `host`, or for its `repositories`, so that no
/// offer for it or for some of these would be taken.
#[must_use]
pub fn is_taken(registries: &Registries, host: &RegistryHost, repositories: Option<&str>) -> bool {
    let name = match repositories {
        Some(repositories) => format!("{host}/{repositories}"),
        None => host.to_string(),
    };
    let Ok(name) = RegistryName::parse(&name) else {
        return false;
    };
    let is_taken = |name| Holder::of(registries, name).taken.is_some();
    let is_open_below = |(below, entry): (&RegistryName, &Registry)| {
        let is_its =
            |one: RegistryHost| one == *host || !below.has_port() && one.name() == host.name();
        let is_within = |below| repositories.is_none_or(|above| is_below(below, above));
        below.host().is_some_and(is_its)
            && below.repositories().is_some_and(is_within)
            && !has_credentials(&(below, entry))
    };
    // An entry for the port of HTTPS holds for an offer without a port, but not for one for some
    // repositories, which is about every port.
    is_taken(&name)
        && is_taken(&entry_name(registries, name.clone()))
        && !registries.iter().any(is_open_below)
}

/// Whether an entry says who the puller is.
fn has_credentials((_, entry): &(&RegistryName, &Registry)) -> bool {
    !entry.credentials.is_anonymous() || entry.credentials_uri.is_some()
}

/// The name of the entry that an offer for `name` is put into.
///
/// A name without a port is offered for the registry on port 443. Where the document has an entry
/// for that port, a new one without a port would hold for all the other ports and for that one not.
pub(crate) fn entry_name(registries: &Registries, name: RegistryName) -> RegistryName {
    let on_https = name.with_https_port();
    if registries.get(&on_https).is_some() { on_https } else { name }
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
    let shown = name.to_string();
    if name.is_literal() {
        let host = RegistryHost::parse(&shown).ok()?;
        return registries
            .matches(&host)
            // An entry for one port is no statement about the others.
            .find(|(known, _)| name.has_port() || !known.has_port());
    }
    // Each host below a suffix is below the shorter ones too; names in their normal form end alike.
    let suffixes = registries.iter().filter(|(known, _)| !known.is_literal());
    let above = suffixes.filter(|(known, _)| shown.ends_with(&known.to_string()));
    above.max_by_key(|(known, _)| known.to_string().len())
}

/// Whether an entry trusts other certificate authorities than the web's.
fn has_roots_of_its_own(entry: &Registry) -> bool {
    entry.ca_certs.is_some() || entry.ca_certs_uri.is_some()
}

/// Whether an entry's credentials go to a mirror.
pub(crate) fn lends(registries: &Registries, entry: &Registry) -> bool {
    let mut mirrors = entry.mirrors.iter();
    mirrors.any(|mirror| registries.literal_entry_for(mirror.host()).is_none())
}

/// The entry that names a host of this name as its mirror and lends it its settings.
fn lender<'d>(registries: &'d Registries, name: &RegistryName) -> Option<&'d RegistryName> {
    let own = name.host().filter(|_| name.repositories().is_none())?;
    let is_it = |mirror: &RegistryHost| match name.has_port() {
        true => *mirror == own,
        false => mirror.name() == own.name(),
    };
    let is_mirror = |entry: &Registry| entry.mirrors.iter().any(|mirror| is_it(mirror.host()));
    registries
        .iter()
        .find(|(_, entry)| is_mirror(entry) && lends(registries, entry))
        .map(|(key, _)| key)
}
