//! The keys of an entry that say who the puller is, and what they mean together.

use zeroize::Zeroizing;

use crate::credential_rule::{
    check_password, check_text, check_token, check_username, looks_sealed,
};
use crate::problem::{Findings, Origin, Place};
use crate::section::{Field, Section};
use crate::{Credentials, Effect, ResourceUri, Rule, Secret, standard_base64};

/// A key that is present; its value is `None` if it broke a rule, which has been reported.
type Text = Field<Option<Zeroizing<String>>>;

/// The same for a key that refers to a secret.
type Reference = Field<Option<ResourceUri>>;

/// The keys that are present.
#[derive(Debug)]
pub(crate) struct CredentialKeys {
    username: Option<Text>,
    password: Option<Text>,
    auth: Option<Field<Option<Pair>>>,
    identity_token: Option<Text>,
    registry_token: Option<Text>,
    /// `credentials-uri`.
    reference: Option<Reference>,
}

/// Who the puller is.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub(crate) credentials: Credentials,
    pub(crate) reference: Option<ResourceUri>,
    /// The keys that hold a credential itself, the secret ones first.
    pub(crate) literal_places: Vec<Place>,
}

/// What `auth` decodes to.
#[derive(Debug)]
struct Pair {
    username: Zeroizing<String>,
    password: Zeroizing<String>,
}

impl CredentialKeys {
    /// Takes the keys out of an entry, each checked for itself.
    pub(crate) fn take(
        section: &mut Section<'_, '_>,
        origin: Origin,
        findings: &mut Findings,
    ) -> Self {
        let reference = take_reference("credentials-uri", section, origin, findings);
        let username = section
            .take_string("username", findings)
            .map(|text| checked(text, check_username, findings));
        let keys = ["password", "auth", "identitytoken", "registrytoken"];
        let [password, auth, identity_token, registry_token] = keys.map(|key| {
            let text = section.take_string(key, findings)?;
            let check = match key {
                "password" => check_password,
                "registrytoken" => check_token,
                _ => check_text,
            };
            let check = |value: &str| match looks_sealed(value) {
                true => Err(Rule::Sealed),
                false => check(value),
            };
            Some(checked(text, check, findings))
        });
        Self {
            username,
            password,
            auth: auth.map(|text| decoded(text, findings)),
            identity_token,
            registry_token,
            reference,
        }
    }

    /// Checks the keys against each other and makes of them what they mean.
    pub(crate) fn into_identity(mut self, findings: &mut Findings) -> Identity {
        let literal_places = self.literal_places();
        let reference = self.reference.take();
        let Some(Field { place, value }) = reference else {
            return Identity {
                credentials: self.into_credentials(findings),
                reference: None,
                literal_places,
            };
        };
        if !literal_places.is_empty() {
            findings.problem(&place, Rule::ReferenceBesideCredentials);
        }
        Identity { reference: value, ..Identity::default() }
    }

    /// Where the keys are that hold a credential itself, the secret ones first.
    fn literal_places(&self) -> Vec<Place> {
        let place = |text: &Option<Text>| text.as_ref().map(|text| text.place.clone());
        let places = [
            place(&self.password),
            self.auth.as_ref().map(|auth| auth.place.clone()),
            place(&self.identity_token),
            place(&self.registry_token),
            place(&self.username),
        ];
        places.into_iter().flatten().collect()
    }

    /// Checks the keys that hold credentials against each other and makes credentials of them.
    fn into_credentials(self, findings: &mut Findings) -> Credentials {
        self.report_halves(findings);
        self.report_disagreement(findings);
        self.report_superseded(findings);
        if let Some(token) = self.registry_token {
            return token
                .value
                .map_or(Credentials::Anonymous, |token| Credentials::RegistryToken(token.into()));
        }
        let pair = self.auth.and_then(|auth| auth.value);
        let mut username = self.username.and_then(|username| username.value);
        if let Some(token) = self.identity_token {
            let from_auth =
                || pair.map(|pair| pair.username).filter(|username| !username.is_empty());
            let username = username
                .take()
                .or_else(from_auth)
                .map(|mut username| std::mem::take(&mut *username));
            let token = token.value.map(Secret::from);
            return token.map_or(Credentials::Anonymous, |token| Credentials::IdentityToken {
                username,
                token,
            });
        }
        let password = self.password.and_then(|password| password.value);
        let keys = username.zip(password).map(|(username, password)| Pair { username, password });
        keys.or(pair).map_or(Credentials::Anonymous, Pair::into_basic)
    }

    fn report_halves(&self, findings: &mut Findings) {
        match (&self.username, &self.password) {
            // An identity token goes with a user name alone.
            (Some(username), None) if self.identity_token.is_none() => {
                findings.problem(&username.place, Rule::UsernameWithoutPassword);
            }
            (None, Some(password)) => {
                findings.problem(&password.place, Rule::PasswordWithoutUsername);
            }
            _ => {}
        }
    }

    fn report_disagreement(&self, findings: &mut Findings) {
        let Some(Field { place, value: Some(pair) }) = &self.auth else {
            return;
        };
        let disagrees = |text: &Option<Text>, decoded: &Zeroizing<String>| {
            text.as_ref().and_then(|text| text.value.as_ref()).is_some_and(|text| text != decoded)
        };
        if disagrees(&self.username, &pair.username) || disagrees(&self.password, &pair.password) {
            findings.problem(place, Rule::PairsDisagree);
        }
    }

    /// Two ways of authentication in one entry are legal, as in docker's files, but only one has an
    /// effect.
    fn report_superseded(&self, findings: &mut Findings) {
        let stronger = match (&self.registry_token, &self.identity_token) {
            (Some(_), _) => "registrytoken",
            (None, Some(_)) => "identitytoken",
            (None, None) => return,
        };
        let mut warn = |place| findings.warning(place, Effect::Superseded { stronger });
        if let Some(password) = &self.password {
            warn(&password.place);
        }
        if let (Some(username), Some(_)) = (&self.username, &self.registry_token) {
            warn(&username.place);
        }
        if let (Some(token), Some(_)) = (&self.identity_token, &self.registry_token) {
            warn(&token.place);
        }
        if let Some(Field { place, value }) = &self.auth {
            // `docker login` writes the user name of an identity token as `auth` with an empty
            // password.
            let has_password = value.as_ref().is_some_and(|pair| !pair.password.is_empty());
            if self.registry_token.is_some() || has_password {
                warn(place);
            }
        }
    }
}

impl Pair {
    fn into_basic(mut self) -> Credentials {
        Credentials::Basic {
            username: std::mem::take(&mut *self.username),
            password: self.password.into(),
        }
    }
}

/// Applies a check to the value; one that is empty or fails it is reported and zeroed.
fn checked(
    text: Text,
    check: impl FnOnce(&str) -> Result<(), Rule>,
    findings: &mut Findings,
) -> Text {
    let Field { place, value } = text;
    let check = |value: &str| match value.is_empty() {
        true => Err(Rule::EmptyCredential),
        false => check(value),
    };
    let value = value.and_then(|value| match check(&value) {
        Ok(()) => Some(value),
        Err(rule) => {
            findings.problem(&place, rule);
            None
        }
    });
    Field { place, value }
}

/// Takes a key that refers to a secret.
pub(crate) fn take_reference(
    key: &str,
    section: &mut Section<'_, '_>,
    origin: Origin,
    findings: &mut Findings,
) -> Option<Reference> {
    let text = section.take_string(key, findings)?;
    Some(referred(text, origin, findings))
}

/// Reads what a key refers to.
fn referred(text: Text, origin: Origin, findings: &mut Findings) -> Reference {
    let Field { place, value } = text;
    let value = value.and_then(|value| {
        let reference = ResourceUri::parse_from(origin, &value)
            .map_err(|rule| findings.problem(&place, rule))
            .ok()?;
        if ResourceUri::names_host(&value) {
            findings.warning(&place, Effect::HostOfBroker);
        }
        Some(reference)
    });
    Field { place, value }
}

fn decoded(auth: Text, findings: &mut Findings) -> Field<Option<Pair>> {
    let Field { place, value } = auth;
    let value =
        value.and_then(|value| decode(&value).map_err(|rule| findings.problem(&place, rule)).ok());
    Field { place, value }
}

/// Decodes base64 of `user:password`; the first colon divides the two.
fn decode(auth: &str) -> Result<Pair, Rule> {
    let bytes = standard_base64::decode(auth).ok_or(Rule::NotBase64)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Rule::EncodedNotUtf8)?;
    let pair = text.split_once(':');
    let (username, password) = pair.unwrap_or((text, ""));
    // The limit was that of `auth`, which is longer.
    let checks = check_text(username).and_then(|()| check_password(password));
    checks.map_err(|_| Rule::EncodedControlCharacter)?;
    pair.ok_or(Rule::NoColon)?;
    if username.is_empty() && password.is_empty() {
        return Err(Rule::EmptyPair);
    }
    let [username, password] = [username, password].map(|half| Zeroizing::new(half.to_owned()));
    Ok(Pair { username, password })
}
