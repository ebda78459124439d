//! What was fetched, put into a plan.

use std::sync::Arc;

use docker_config::DockerConfig;
use registry_config::{Credentials, RegistryHost, Roots};

use super::{Plan, Route, Step};
use crate::account::{Account, EntryAccount};
use crate::error::Error;
use crate::reason::Reason;
use crate::source::Source;

impl Plan {
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
            ("credentials-uri", self.credentials_uri().is_some(), fetched.is_some()),
            ("ca-certs-uri", self.ca_certs_uri().is_some(), roots.is_some()),
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
        let Step { mut source, account, .. } = step;
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
                        source.accounts = vec![EntryAccount { credentials, number }];
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
        let config = self.config.ok_or_else(|| self.not_there("credentials-uri"))?;
        let found = config.credentials_for(host, rewritten.unwrap_or(self.repository));
        found.map_err(|unfit| self.not_confided(host, unfit.to_string()))
    }

    fn not_for(&self, host: &RegistryHost) -> Error {
        let rule = "it has no entry for that registry and repository; write one into it under the \
        registry's own name";
        self.not_confided(host, rule.to_owned())
    }

    fn not_confided(&self, host: &RegistryHost, rule: String) -> Error {
        Error::UnfitCredentials { registry: host.to_string(), authority: self.entry.clone(), rule }
    }

    fn not_there(&self, key: &str) -> Error {
        Error::Internal(format!("{key:?} of {} was not fetched", self.entry))
    }
}
