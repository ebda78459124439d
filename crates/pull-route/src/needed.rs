//! What of the host's document the pulls of some registries use, and what they do not.
//!
//! Only secrets are ever left out: accounts, client certificates with their keys, decryption keys.
//! Everything else of an entry stays, and so does the entry itself, be it empty: which entry holds
//! for a host, which roots are trusted there, who is forbidden and which mirrors are asked is the
//! same as before for every registry, in the list or not. So nothing is loosened anywhere, and who
//! asks for less gets nothing else.
//!
//! References (`credentials-uri`, sealed secrets) stay as well. Who gets what they name is decided
//! by a broker and not by the node; and beside them settings that weaken a connection do not count,
//! which without them would.
//!
//! A pull of the list keeps all that it uses, however wide the entry is that it is from: `.corp`
//! keeps its account where `registry.corp` is in the list. What nobody here can know is which hosts
//! a server sends the puller to, and which mirrors the measured document names: where these want an
//! account or a client certificate of their own, they have to be in the list themselves.

use std::collections::BTreeSet;
use std::fmt;

use puller_config::{
    DecryptionKey, Document, Match, Mirror, OnlyRegistries, Registries, RegistryHost, RegistryName,
    is_below,
};

use crate::plan::making::is_registry;

/// Something of a document that no pull of a list uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surplus {
    /// The entry or table that has it; `None` for the decryption keys of every image.
    pub name: Option<RegistryName>,
    /// What it is.
    pub what: Secrets,
}

/// The kinds of secrets of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Secrets {
    /// All accounts of an entry.
    Accounts,
    /// Its further accounts, `also`.
    FurtherAccounts,
    /// Its client certificate with the key.
    Client,
    /// The keys of a table of `[decryption-keys]`.
    DecryptionKeys,
}

impl Secrets {
    /// What they are called.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Accounts => "credentials",
            Self::FurtherAccounts => "further accounts",
            Self::Client => "client certificate",
            Self::DecryptionKeys => "decryption keys",
        }
    }
}

/// As `client certificate of "registry.corp"`.
impl fmt::Display for Surplus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what.label())?;
        match &self.name {
            Some(name) => write!(f, " of \"{}\"", name.written()),
            None => f.write_str(" of every image"),
        }
    }
}

/// The secrets of the host's `document` that no pull of `only` uses, in the order of their names.
#[must_use]
pub fn surplus(document: &Document, only: &OnlyRegistries) -> Vec<Surplus> {
    let mut used = BTreeSet::new();
    for listed in only.iter() {
        Uses { registries: &document.registries, listed }.add_to(&mut used);
    }
    let mut found = Vec::new();
    for (name, entry) in document.registries.iter() {
        let has = |what| used.contains(&(name, what));
        let surplus = |what| Surplus { name: Some(name.clone()), what };
        if !entry.credentials.is_anonymous() && !has(Secrets::Accounts) {
            found.push(surplus(Secrets::Accounts));
        } else if !entry.also.is_empty() && !has(Secrets::FurtherAccounts) {
            found.push(surplus(Secrets::FurtherAccounts));
        }
        if entry.client.is_some() && !has(Secrets::Client) {
            found.push(surplus(Secrets::Client));
        }
    }
    let is_used = |name: Option<&RegistryName>| match name {
        Some(name) => only.touches(name),
        None => !only.is_empty(),
    };
    let tables = document.decryption_keys.tables();
    let unused = tables.filter(|(name, keys)| {
        let is_given = |key: &DecryptionKey| matches!(key, DecryptionKey::Given { .. });
        keys.iter().any(is_given) && !is_used(*name)
    });
    found.extend(
        unused.map(|(name, _)| Surplus { name: name.cloned(), what: Secrets::DecryptionKeys }),
    );
    found
}

/// Entries with what of them is used.
type Used<'d> = BTreeSet<(&'d RegistryName, Secrets)>;

/// What the pulls of one name of the list use.
struct Uses<'d> {
    registries: &'d Registries,
    listed: &'d RegistryName,
}

impl<'d> Uses<'d> {
    /// The pulls are without number, but differ only by the port, where entries name one, and by
    /// the first segments of the repository, where entries or mirrors name some: one of each kind
    /// is looked at.
    fn add_to(&self, used: &mut Used<'d>) {
        for host in self.hosts() {
            for repository in self.repositories(&host) {
                self.add_pull(&host, repository, used);
            }
        }
    }

    fn hosts(&self) -> Vec<RegistryHost> {
        let Some(listed) = self.listed.host() else {
            return Vec::new();
        };
        if listed.port().is_some() {
            return vec![listed];
        }
        let hosts = self.registries.iter().filter_map(|(name, _)| name.host());
        let same = hosts.filter(|host| host.name() == listed.name());
        let ports: BTreeSet<u16> = same.filter_map(|host| host.port()).collect();
        // One that no entry names, for all the others.
        let other = (1..=u16::MAX).find(|port| !ports.contains(port));
        let with_port = |port| RegistryHost::parse(&format!("{}:{port}", listed.name())).ok();
        let named = ports.iter().copied().chain(other).filter_map(with_port);
        named.chain([listed.clone()]).collect()
    }

    /// First segments, as far as entries or mirrors tell repositories apart by them; `None` for a
    /// repository that none of them names.
    fn repositories(&self, host: &RegistryHost) -> BTreeSet<Option<&'d str>> {
        let listed = self.listed.repositories();
        let is_listed = |prefix: &&str| listed.is_none_or(|listed| is_below(prefix, listed));
        let of_entries = self.registries.iter().filter_map(|(name, _)| {
            let is_same = name.host().is_some_and(|known| known.name() == host.name());
            name.repositories().filter(|_| is_same)
        });
        let mirrors = match self.registries.entry_for(host) {
            Match::Entry { entry, .. } => entry.mirrors.as_slice(),
            Match::Defaults => &[],
        };
        let of_mirrors = mirrors.iter().filter_map(Mirror::prefix);
        let named = of_entries.chain(of_mirrors).filter(is_listed).map(Some);
        named.chain([listed]).collect()
    }

    /// What `Settings::plan` takes from the document for one pull.
    fn add_pull(&self, host: &RegistryHost, repository: Option<&str>, used: &mut Used<'d>) {
        let access = repository
            .and_then(|repository| self.registries.repository_entries(host, repository).next());
        let entry = match self.registries.entry_for(host) {
            Match::Entry { key, entry, .. } => Some((key, entry)),
            Match::Defaults => None,
        };
        let who = access.or(entry);
        if let Some((name, _)) = who {
            used.extend([(name, Secrets::Accounts), (name, Secrets::FurtherAccounts)]);
        }
        // Of an entry of the host nothing else counts where the credentials are fetched.
        let is_confidential = who.is_some_and(|(_, entry)| entry.credentials_uri.is_some());
        let Some((name, entry)) = entry.filter(|_| !is_confidential) else {
            return;
        };
        used.insert((name, Secrets::Client));
        let has = |mirror: &&Mirror| match (mirror.prefix(), repository) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(repository)) => mirror.has(repository),
        };
        let is_other = |mirror: &&Mirror| !is_registry(mirror, host, repository.unwrap_or("other"));
        for mirror in entry.mirrors.iter().filter(has).filter(is_other) {
            match self.registries.literal_entry_for(mirror.host()) {
                Some((own, _)) => used.extend([
                    (own, Secrets::Accounts),
                    (own, Secrets::FurtherAccounts),
                    (own, Secrets::Client),
                ]),
                // It borrows the first account.
                None => {
                    used.insert((name, Secrets::Accounts));
                }
            }
        }
    }
}
