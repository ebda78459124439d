//! How a plan is made, of the documents and the name of an image.

use registry_config::{Mirror, RegistryHost, Rule};

use super::{Plan, Step};
use crate::account::Account;
use crate::error::Error;
use crate::reason::Reason;
use crate::settings::{Authority, Settings};
use crate::source::Source;

impl Settings {
    /// Plans the pull of an image of a registry's repository.
    ///
    /// # Errors
    ///
    /// [`Error::NodeError`] where the node has no document; [`Error::MirrorReference`] and
    /// [`Error::MirrorInClear`] for mirrors that cannot be asked as the documents want,
    /// [`Error::NoName`] for the last one if the repository has no name there, [`Error::Blocked`]
    /// for a repository that nobody is asked for, [`Error::Address`] for a registry that no URL can
    /// name.
    pub fn plan(&self, host: &RegistryHost, repository: &str) -> Result<Plan, Error> {
        if let Some(reason) = &self.configuration.document.node_error {
            return Err(Error::NodeError(reason.clone()));
        }
        let entry = self.image(host, repository);
        let is_confidential = entry.credentials_entry().credentials_uri.is_some();
        let mut settings = self.clone();
        settings.is_confidential = is_confidential;
        let authority = if is_confidential { entry.confidential() } else { entry };
        if let Some(prefix) = authority.registry.blocked(repository) {
            let (image, prefix) = (format!("{host}/{repository}"), prefix.to_owned());
            return Err(Error::Blocked { image, authority: authority.to_string(), prefix });
        }
        let image = ImageName { host, repository };
        let has = |mirror: &&Mirror| mirror.has(repository);
        let mirrors: Vec<_> = authority.registry.mirrors.iter().filter(has).collect();
        let count = mirrors.len();
        let step = |(at, mirror)| {
            let has_fallback = at + 1 < count || authority.registry.falls_back(repository);
            settings.mirror(mirror, image, &authority, has_fallback).transpose()
        };
        let mut mirrors: Vec<_> =
            mirrors.into_iter().enumerate().filter_map(step).collect::<Result<_, _>>()?;
        let lends = |mirror: &&Step| {
            let borrowed = mirror.authority().credentials_name();
            !mirror.is_own_entry && borrowed == authority.lendable_name()
        };
        let lent_to = mirrors.iter().find(lends);
        let account = match lent_to {
            _ if is_confidential => Account::Fetched {
                host: host.clone(),
                is_required: !authority.credentials_entry().credentials_optional,
            },
            // An entry that lends its credentials to the mirror has none left for the registry but
            // the further accounts. Those for the repository are not lent.
            Some(mirror)
                if authority.access.is_none() && !authority.registry.credentials.is_anonymous() =>
            {
                Account::not_lent(&authority, mirror.source.host())
            }
            _ => Account::given(&authority),
        };
        let registry = Step {
            source: Source::registry(host, authority.clone())?,
            account,
            is_own_entry: true,
        };
        for own in mirrors.iter_mut().filter(|step| step.is_registry()) {
            own.account.clone_from(&registry.account);
        }
        Ok(Plan {
            settings,
            host: host.clone(),
            repository: repository.to_owned(),
            authority,
            mirrors,
            registry,
        })
    }

    /// A mirror that the entry `under` names. `None` where the repository has no name there, and
    /// another one is asked.
    fn mirror(
        &self,
        mirror: &Mirror,
        image: ImageName<'_>,
        under: &Authority,
        has_fallback: bool,
    ) -> Result<Option<Step>, Error> {
        if self.is_confidential && mirror.is_plain_http() {
            return Err(Error::MirrorInClear {
                host: mirror.host().to_string(),
                authority: under.to_string(),
            });
        }
        let Some(repository) = mirror.name_of(image.repository) else {
            let error = || Error::NoName {
                mirror: mirror.host().to_string(),
                authority: under.to_string(),
                repository: image.repository.to_owned(),
            };
            return if has_fallback { Ok(None) } else { Err(error()) };
        };
        // The plan puts in the account that is left for it.
        if is_registry(mirror, image.host, repository == image.repository) {
            let (repository, under) = (repository.into_owned(), under.clone());
            return Ok(Some(Step {
                account: Account::given(&under),
                source: Source {
                    namespace: None,
                    ..Source::mirror(mirror, image.host, repository, under, has_fallback)
                },
                is_own_entry: true,
            }));
        }
        // In a confidential pull this is a measured entry.
        let own = self.named_as_written(mirror.host(), under);
        // The registry itself may be its mirror: then the roots of its entry are fetched.
        let is_fetched = !self.is_confidential && mirror.host() == image.host;
        if let Some(own) = own.as_ref().filter(|_| !is_fetched)
            && let Some(key) = own.registry.unfetched_for_mirror(self.is_confidential)
        {
            return Err(Error::MirrorReference {
                mirror: mirror.host().to_string(),
                authority: match key {
                    "ca-certs-uri" => own.to_string(),
                    _ => own.credentials_name().to_string(),
                },
                rule: Box::new(Rule::MirrorReference { key }),
            });
        }
        let is_own_entry = own.is_some();
        let (authority, account) = if self.is_confidential {
            confidential_mirror(mirror.host(), own, under, image.repository)
        } else {
            let authority = own.unwrap_or_else(|| self.lent(mirror.host(), under));
            let account = match authority.registry.credentials_uri {
                // The pull's credentials are others, those for the repository.
                Some(_) => {
                    let entry = authority.lendable_name().clone();
                    Account::Anonymous(Reason::ReferenceUnused(entry))
                }
                None => Account::given(&authority),
            };
            (authority, account)
        };
        let repository = repository.into_owned();
        Ok(Some(Step {
            source: Source::mirror(mirror, image.host, repository, authority, has_fallback),
            account,
            is_own_entry,
        }))
    }
}

/// What is pulled.
#[derive(Clone, Copy)]
struct ImageName<'i> {
    host: &'i RegistryHost,
    repository: &'i str,
}

/// What holds for the mirror of a confidential pull: CAs are lent to it, credentials are not.
///
/// It is asked with the credentials of its own measured entry, or else with what the fetched
/// configuration has for the mirror's own name, or else anonymously.
fn confidential_mirror(
    mirror: &RegistryHost,
    own: Option<Authority>,
    under: &Authority,
    repository: &str,
) -> (Authority, Account) {
    // It is the only one that is asked, or its own entry says that there are credentials.
    let is_optional = under.credentials_entry().credentials_optional;
    let is_needed = !under.registry.falls_back(repository) && !is_optional;
    let fetched = |is_named: bool| Account::Fetched {
        host: mirror.clone(),
        is_required: is_named || is_needed,
    };
    let Some(own) = own else {
        return (under.lent(), fetched(false));
    };
    if own.registry.wants_anonymous {
        let account = Account::given(&own);
        return (own.confidential(), account);
    }
    let account = if own.registry.credentials.is_anonymous() {
        let is_named = own.registry.credentials_uri.is_some();
        fetched(is_named && !own.registry.credentials_optional)
    } else {
        Account::given(&own)
    };
    (own.confidential(), account)
}

/// Whether a mirror is the image's registry itself, as imports of registries.conf write it.
fn is_registry(mirror: &Mirror, host: &RegistryHost, keeps_name: bool) -> bool {
    mirror.host() == host && mirror.url().path() == "/" && keeps_name
}
