//! The plan of one pull: its sources in order, each with the account and the roots that it is asked
//! with, before anything is fetched by reference.
//!
//! The host prints a plan, because it may not see what is fetched. The guest fetches what the plan
//! refers to and fills it in, and only a filled plan has sources that can be asked.
//!
//! A pull is *confidential* where the entry in charge has `credentials-uri`. The host chooses which
//! resource is fetched, answers the guest's name look-ups and stands on its network. So the secret
//! goes only where the author of the fetched docker configuration says, over TLS that the host has
//! no part in:
//!
//! - The fetched configuration has to name the registry of the image, or its mirror by the measured
//!   document.
//! - No entry of the host counts: neither CAs, unchecked certificates, plain HTTP and mirrors, nor
//!   entries for the token servers and storage hosts that the registry sends the puller to. The
//!   web's roots hold, or those that were fetched.
//! - The measured document counts, but for unchecked certificates and plain HTTP, which nobody
//!   wants for a secret.
//! - The proxies of either document count: all that passes them is TLS to the other end.

use std::sync::Arc;

use docker_config::DockerConfig;
use puller_config::{Credentials, Mirror, RegistryHost, Roots, Rule, SecretReference};
use url::Url;

use crate::account::{Account, EntryAccount};
use crate::error::Error;
use crate::reason::Reason;
use crate::settings::{Authority, Settings};
use crate::source::Source;

/// The sources of a registry's images, before anything is fetched.
#[derive(Clone, Debug)]
pub struct Plan {
    settings: Settings,
    host: RegistryHost,
    repository: String,
    /// The entry in charge, as far as it counts.
    authority: Authority,
    /// Asked first, in this order.
    mirrors: Vec<Step>,
    /// The registry itself, whether it is asked or not.
    registry: Step,
}

/// A source that has no credentials yet.
#[derive(Clone, Debug)]
pub struct Step {
    source: Source,
    account: Account,
    is_own_entry: bool,
}

/// The sources that a pull asks.
#[derive(Debug)]
pub struct Route {
    /// The documents, as they count for the hosts that the sources send the puller to.
    pub settings: Settings,
    /// The sources, first choice first.
    pub sources: Vec<Source>,
}

impl Settings {
    /// Plans the pull of an image of a registry's repository.
    ///
    /// # Errors
    ///
    /// [`Error::NodeError`] where the node has no document; [`Error::MirrorReference`] and
    /// [`Error::MirrorInClear`] for mirrors that cannot be asked as the documents want,
    /// [`Error::Rewrite`] for one by whose rules the repository has no name,
    /// [`Error::Address`] for a registry that no URL can name.
    pub fn plan(&self, host: &RegistryHost, repository: &str) -> Result<Plan, Error> {
        if let Some(reason) = &self.configuration.document.node_error {
            return Err(Error::NodeError(reason.clone()));
        }
        let entry = self.image(host, repository);
        let is_confidential = entry.credentials_entry().credentials_uri.is_some();
        let mut settings = self.clone();
        settings.is_confidential = is_confidential;
        let authority = if is_confidential {
            entry.confidential()
        } else {
            entry
        };
        let image = ImageName { host, repository };
        let has = |mirror: &&Mirror| mirror.has(repository);
        let mirrors: Vec<_> = authority.registry.mirrors.iter().filter(has).collect();
        let count = mirrors.len();
        let step = |(at, mirror)| {
            let has_fallback = at + 1 < count || authority.registry.mirror_fallback;
            settings.mirror(mirror, image, &authority, has_fallback)
        };
        let mirrors: Vec<_> = mirrors
            .into_iter()
            .enumerate()
            .map(step)
            .collect::<Result<_, _>>()?;
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
        Ok(Plan {
            settings,
            host: host.clone(),
            repository: repository.to_owned(),
            authority,
            mirrors,
            registry,
        })
    }

    /// A mirror that the entry `under` names.
    fn mirror(
        &self,
        mirror: &Mirror,
        image: ImageName<'_>,
        under: &Authority,
        has_fallback: bool,
    ) -> Result<Step, Error> {
        if self.is_confidential && mirror.is_plain_http() {
            return Err(Error::MirrorInClear {
                host: mirror.host().to_string(),
                authority: under.to_string(),
            });
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
            confidential_mirror(mirror.host(), own, under)
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
        let repository = mirror
            .name_of(image.repository)
            .map_err(|rule| Error::Rewrite {
                mirror: mirror.host().to_string(),
                authority: under.to_string(),
                repository: image.repository.to_owned(),
                rule,
            })?;
        let repository = repository.into_owned();
        Ok(Step {
            source: Source::mirror(mirror, image.host, repository, authority, has_fallback),
            account,
            is_own_entry,
        })
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
) -> (Authority, Account) {
    // It is the only one that is asked, or its own entry says that there are credentials.
    let is_optional = under.credentials_entry().credentials_optional;
    let is_needed = !under.registry.mirror_fallback && !is_optional;
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

impl Plan {
    /// The reference to the docker configuration that has to be fetched.
    pub fn credentials_uri(&self) -> Option<&SecretReference> {
        self.authority.credentials_entry().credentials_uri.as_ref()
    }

    /// The reference to the roots that have to be fetched.
    pub fn ca_certs_uri(&self) -> Option<&SecretReference> {
        self.authority.registry.ca_certs_uri.as_ref()
    }

    /// The entry in charge of the registry, as far as it counts in this pull.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The repository of the image.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The documents as they count in this pull.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The mirrors that have the repository, which are asked first, in this order.
    pub fn mirrors(&self) -> &[Step] {
        &self.mirrors
    }

    /// The registry itself.
    pub fn registry(&self) -> &Step {
        &self.registry
    }

    /// Whether the registry itself is asked.
    pub fn is_registry_asked(&self) -> bool {
        self.mirrors.is_empty() || self.authority.registry.mirror_fallback
    }

    /// Refuses where each host that this plan asks is forbidden, also for an image that nobody has
    /// to be asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`], of the first host.
    pub fn check_allowed(&self) -> Result<(), Error> {
        let registry = self.is_registry_asked().then_some(&self.registry);
        let steps = self.mirrors.iter().chain(registry);
        let mut refused = None;
        for step in steps {
            match step.authority().check_roots() {
                // What is fetched is not known yet.
                Err(_) => return Ok(()),
                Ok(()) => match step.authority().check_allowed(&step.source.host()) {
                    Ok(()) => return Ok(()),
                    Err(error) => refused = refused.or(Some(error)),
                },
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Puts in what was fetched.
    ///
    /// # Errors
    ///
    /// [`Error::UnfitCredentials`] unless the fetched configuration has credentials where a source
    /// requires them. [`Error::Internal`] where something was not fetched, or fetched unasked.
    pub fn fill(
        self,
        fetched: Option<&DockerConfig>,
        roots: Option<Roots>,
    ) -> Result<Route, Error> {
        let references = [
            (
                "credentials-uri",
                self.credentials_uri().is_some(),
                fetched.is_some(),
            ),
            (
                "ca-certs-uri",
                self.ca_certs_uri().is_some(),
                roots.is_some(),
            ),
        ];
        for (key, is_wanted, is_there) in references {
            if is_wanted != is_there {
                let state = if is_wanted { "was not" } else { "needs not be" };
                let name = self.authority.credentials_name();
                let rule = format!("{key:?} of {name} {state} fetched");
                return Err(Error::Internal(rule));
            }
        }
        let is_registry_asked = self.is_registry_asked();
        let registry = is_registry_asked.then_some(self.registry);
        let fetched = Fetched {
            config: fetched,
            roots: roots.as_ref(),
            entry: self.authority.credentials_name().to_string(),
            repository: &self.repository,
        };
        let steps = self.mirrors.into_iter().chain(registry);
        let sources = steps.map(|step| fetched.put_into(step));
        let sources = sources.collect::<Result<_, _>>()?;
        let mut settings = self.settings;
        if !settings.is_confidential {
            settings.fetched_roots = roots.map(|roots| Arc::new((self.host, roots)));
        }
        Ok(Route { settings, sources })
    }
}

impl Step {
    /// The name under which the source has the repository.
    pub fn repository(&self) -> Option<&str> {
        self.source.repository.as_deref()
    }

    /// The address: scheme, host, port and the path before `/v2/`.
    pub fn url(&self) -> &Url {
        &self.source.base
    }

    /// What holds for this host.
    pub fn authority(&self) -> &Authority {
        &self.source.authority
    }

    /// Who the puller is there.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Whether the entry that holds is the host's own. Otherwise it is lent by the entry that names
    /// the mirror.
    pub fn is_own_entry(&self) -> bool {
        self.is_own_entry
    }

    /// Why credentials are kept back where the source is asked over plain HTTP.
    pub fn kept_back(&self) -> Option<Reason> {
        let has_account = !matches!(self.account, Account::Anonymous(_));
        let is_plain = match self.source.is_scheme_fixed {
            true => self.url().scheme() == "http",
            false => self.source.may_be_plain(),
        };
        (has_account && is_plain && !self.source.may_tell("http"))
            .then(|| Reason::NotInClear(self.source.authority.name.clone()))
    }
}

/// What was fetched, and what it is asked about.
struct Fetched<'a> {
    config: Option<&'a DockerConfig>,
    roots: Option<&'a Roots>,
    /// The entry with the references, in words.
    entry: String,
    repository: &'a str,
}

impl Fetched<'_> {
    fn put_into(&self, step: Step) -> Result<Source, Error> {
        let Step {
            mut source,
            account,
            ..
        } = step;
        let authority = &mut source.authority;
        authority.forget_credentials();
        // A source that has one has that of the entry in charge.
        if authority.registry.ca_certs_uri.take().is_some() {
            let roots = self.roots.ok_or_else(|| self.not_there("ca-certs-uri"))?;
            authority.registry.ca_certs = Some(roots.clone());
            authority.has_fetched_roots = true;
        }
        match account {
            Account::Given(accounts) => source.accounts = accounts,
            Account::Anonymous(reason) => source.why_anonymous = Some(reason),
            Account::Fetched { host, is_required } => {
                match self.credentials(&host, source.repository.as_deref())? {
                    Some(credentials) => {
                        let number = 0;
                        source.accounts = vec![EntryAccount {
                            credentials,
                            number,
                        }];
                        source.authority.has_fetched_credentials = true;
                    }
                    None if is_required => return Err(self.not_for(&host)),
                    None => {
                        let (entry, host) = (self.entry.clone(), host.to_string());
                        source.why_anonymous = Some(Reason::NotFetched { entry, host });
                    }
                }
            }
        }
        Ok(source)
    }

    /// What was fetched for a host, and for the name under which it has the repository.
    fn credentials(
        &self,
        host: &RegistryHost,
        rewritten: Option<&str>,
    ) -> Result<Option<Credentials>, Error> {
        let config = self
            .config
            .ok_or_else(|| self.not_there("credentials-uri"))?;
        let found = config.credentials_for(host, rewritten.unwrap_or(self.repository));
        found.map_err(|unfit| self.not_confided(host, unfit.to_string()))
    }

    fn not_for(&self, host: &RegistryHost) -> Error {
        let rule = "it has no entry for that registry and repository; write one into it under the \
        registry's own name";
        self.not_confided(host, rule.to_owned())
    }

    fn not_confided(&self, host: &RegistryHost, rule: String) -> Error {
        Error::UnfitCredentials {
            registry: host.to_string(),
            authority: self.entry.clone(),
            rule,
        }
    }

    fn not_there(&self, key: &str) -> Error {
        Error::Internal(format!("{key:?} of {} was not fetched", self.entry))
    }
}
