//! Who the puller is to a source, and in which order that is tried.

use registry_config::{Credentials, Registry, RegistryHost};

use crate::reason::Reason;
use crate::settings::Authority;

/// Who the puller is to a source.
#[derive(Clone, Debug)]
pub enum Account {
    /// Nobody, for this reason.
    Anonymous(Reason),
    /// Who the entry says: one account after another, the next one after a refusal. At least one.
    Given(Vec<EntryAccount>),
    /// Who the fetched docker configuration says, under the name of the host.
    Fetched {
        /// The source's host.
        host: RegistryHost,
        /// Whether the pull fails if the configuration does not have it. Otherwise the source is
        /// asked anonymously.
        is_required: bool,
    },
}

/// One account of an entry, or the one that was fetched.
#[derive(Clone, Debug)]
pub struct EntryAccount {
    /// Never anonymous.
    pub credentials: Credentials,
    /// Its place in the entry's `also`, from 1; 0 for the entry's own.
    pub number: usize,
}

impl Account {
    /// All accounts of the entry that says who the puller is.
    pub(crate) fn given(authority: &Authority) -> Self {
        let entry = authority.credentials_entry();
        let name = authority.credentials_name().clone();
        let otherwise = match entry.wants_anonymous {
            true => Reason::WantsAnonymous(name),
            false => Reason::NoCredentials(name),
        };
        Self::of(EntryAccount::all(entry), otherwise)
    }

    /// The accounts that are left for the registry where the entry's own was lent to a mirror.
    pub(crate) fn not_lent(authority: &Authority, mirror: String) -> Self {
        let mut accounts = EntryAccount::all(&authority.registry);
        accounts.retain(|account| account.number > 0);
        let entry = authority.lendable_name().clone();
        Self::of(accounts, Reason::LentAway { entry, mirror })
    }

    fn of(accounts: Vec<EntryAccount>, otherwise: Reason) -> Self {
        match accounts.is_empty() {
            true => Self::Anonymous(otherwise),
            false => Self::Given(accounts),
        }
    }
}

impl EntryAccount {
    fn all(entry: &Registry) -> Vec<Self> {
        let all = std::iter::once(&entry.credentials).chain(&entry.also);
        let numbered = all
            .enumerate()
            .map(|(number, credentials)| Self { credentials: credentials.clone(), number });
        let given = numbered.filter(|account| !account.credentials.is_anonymous());
        given.collect()
    }

    /// Where accounts stand in their entry, in words.
    pub fn places(numbers: &[usize]) -> String {
        let own = numbers.contains(&0).then(|| "its own account".to_owned());
        let also: Vec<_> =
            numbers.iter().filter(|number| **number > 0).map(ToString::to_string).collect();
        let also = (!also.is_empty()).then(|| format!("\"also\" {}", also.join(", ")));
        let places: Vec<_> = own.into_iter().chain(also).collect();
        places.join(" and ")
    }
}
