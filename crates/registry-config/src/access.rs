//! The keys of an entry that say who the puller is, read.

use crate::credential_keys::{CredentialKeys, Identity};
use crate::limits::MAX_ALSO;
use crate::problem::{Findings, Origin, Place};
use crate::section::{Field, Section};
use crate::{Registry, Rule};

/// The further accounts of an entry.
pub(crate) const ALSO: &str = "also";

/// Nobody's credentials are wanted.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// The keys of such an account, for suggestions.
const ACCOUNT_KEYS: [&str; 5] = ["username", "password", "auth", "identitytoken", "registrytoken"];

/// Who the puller is by an entry.
#[derive(Debug)]
pub(crate) struct Access {
    /// An entry with credentials alone.
    pub(crate) registry: Registry,
    /// The credentials that stand in the document itself, secrets first.
    pub(crate) literal_places: Vec<Place>,
}

impl Access {
    /// Takes the keys out of an entry; what is broken is reported and left at its default.
    pub(crate) fn take(
        section: &mut Section<'_, '_>,
        origin: Origin,
        findings: &mut Findings,
    ) -> Self {
        let Identity { credentials, reference: credentials_uri, literal_places } =
            CredentialKeys::take(section, origin, findings).into_identity(findings);
        let optional = section.take_bool("credentials-optional", findings);
        if let (Some(Field { place, .. }), None) = (&optional, &credentials_uri) {
            findings.problem(place, Rule::OptionalWithoutReference);
        }
        let mut access = Self {
            registry: Registry {
                credentials,
                credentials_uri,
                credentials_optional: optional.is_some_and(|field| field.value),
                ..Registry::default()
            },
            literal_places,
        };
        if let Some(accounts) = section.take_table_list(ALSO, findings) {
            access.take_also(accounts, origin, findings);
        }
        if let Some(Field { place, value }) = section.take_bool(ANONYMOUS, findings) {
            access.registry.wants_anonymous = value;
            if origin == Origin::Host {
                findings.problem(&place, Rule::AnonymousOfHost);
            } else if value && access.has_credentials() {
                findings.problem(&place, Rule::AnonymousBesideCredentials);
            }
        }
        access
    }

    fn has_credentials(&self) -> bool {
        !self.literal_places.is_empty() || self.registry.credentials_uri.is_some()
    }

    fn take_also(
        &mut self,
        Field { place, value }: Field<Vec<Section<'_, '_>>>,
        origin: Origin,
        findings: &mut Findings,
    ) {
        if value.len() > MAX_ALSO {
            return findings.problem(&place, Rule::TooManyAccounts);
        }
        let is_alone = self.literal_places.is_empty();
        match &self.registry.credentials_uri {
            Some(_) => findings.problem(&place, Rule::AlsoBesideReference),
            None if is_alone => findings.problem(&place, Rule::AlsoAlone),
            None => {}
        }
        for mut section in value {
            let place = section.place().clone();
            let keys = CredentialKeys::take(&mut section, origin, findings);
            let identity = keys.into_identity(findings);
            let unknown = Rule::UnknownKey { suggestion: None };
            section.refuse_rest(&ACCOUNT_KEYS, &unknown, findings);
            if identity.reference.is_some() {
                findings.problem(&place, Rule::ReferenceInAlso);
            } else if identity.literal_places.is_empty() {
                findings.problem(&place, Rule::EmptyAlso);
            }
            self.literal_places.extend(identity.literal_places);
            self.registry.also.push(identity.credentials);
        }
    }
}
