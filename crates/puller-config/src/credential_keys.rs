//! The five keys of an entry that say who the puller is, and what they mean together.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

use crate::problem::Findings;
use crate::section::{Field, Section};
use crate::{Credentials, Effect, Rule, Secret};

/// The longest user name, password or token: more than any registry takes in a request header, and above the longest
/// identity tokens of cloud registries.
pub const MAX_CREDENTIAL_BYTES: usize = 16 << 10;

/// Base64 as in docker's configuration files, whose readers differ about padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key that is present; its value is `None` if it broke a rule, which has been reported.
type Text = Field<Option<Zeroizing<String>>>;

/// The keys that are present.
#[derive(Debug)]
pub(crate) struct CredentialKeys {
    username: Option<Text>,
    password: Option<Text>,
    auth: Option<Field<Option<Pair>>>,
    identity_token: Option<Text>,
    registry_token: Option<Text>,
}

/// What `auth` decodes to.
#[derive(Debug)]
struct Pair {
    username: Zeroizing<String>,
    password: Zeroizing<String>,
}

impl CredentialKeys {
    /// Takes the keys out of an entry, each checked for itself.
    pub(crate) fn take(section: &mut Section<'_, '_>, findings: &mut Findings) -> Self {
        let [username, password, auth, identity_token, registry_token] = [
            "username",
            "password",
            "auth",
            "identitytoken",
            "registrytoken",
        ]
        .map(|key| {
            Some(checked(
                section.take_string(key, findings)?,
                check_text,
                findings,
            ))
        });
        Self {
            username: username.map(|text| checked(text, check_username, findings)),
            password,
            auth: auth.map(|text| decoded(text, findings)),
            identity_token,
            registry_token: registry_token.map(|text| checked(text, check_token, findings)),
        }
    }

    /// Checks the keys against each other and makes credentials of them.
    pub(crate) fn into_credentials(self, findings: &mut Findings) -> Credentials {
        self.report_halves(findings);
        self.report_disagreement(findings);
        self.report_superseded(findings);
        if let Some(token) = self.registry_token {
            return token.value.map_or(Credentials::Anonymous, |token| {
                Credentials::RegistryToken(token.into())
            });
        }
        let pair = self.auth.and_then(|auth| auth.value);
        let mut username = self.username.and_then(|username| username.value);
        if let Some(token) = self.identity_token {
            let from_auth = || {
                pair.map(|pair| pair.username)
                    .filter(|username| !username.is_empty())
            };
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
        let keys = username
            .zip(password)
            .map(|(username, password)| Pair { username, password });
        keys.or(pair)
            .map_or(Credentials::Anonymous, Pair::into_basic)
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
        let Some(Field {
            place,
            value: Some(pair),
        }) = &self.auth
        else {
            return;
        };
        let disagrees = |text: &Option<Text>, decoded: &Zeroizing<String>| {
            text.as_ref()
                .and_then(|text| text.value.as_ref())
                .is_some_and(|text| text != decoded)
        };
        if disagrees(&self.username, &pair.username) || disagrees(&self.password, &pair.password) {
            findings.problem(place, Rule::PairsDisagree);
        }
    }

    /// Two ways of authentication in one entry are legal, as in docker's files, but only one has an effect.
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
            // `docker login` writes the user name of an identity token as `auth` with an empty password.
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

/// Applies a check to the value; one that fails it is reported and zeroed.
fn checked(
    text: Text,
    check: impl FnOnce(&str) -> Result<(), Rule>,
    findings: &mut Findings,
) -> Text {
    let Field { place, value } = text;
    let value = value.and_then(|value| match check(&value) {
        Ok(()) => Some(value),
        Err(rule) => {
            findings.problem(&place, rule);
            None
        }
    });
    Field { place, value }
}

/// What holds for every credential: it becomes part of a header or a form.
fn check_text(text: &str) -> Result<(), Rule> {
    if text.is_empty() {
        return Err(Rule::EmptyCredential);
    }
    if text.len() > MAX_CREDENTIAL_BYTES {
        return Err(Rule::CredentialTooLong);
    }
    if text.chars().any(char::is_control) {
        return Err(Rule::ControlCharacter);
    }
    Ok(())
}

fn check_username(text: &str) -> Result<(), Rule> {
    if text.contains(':') {
        Err(Rule::ColonInUsername)
    } else {
        Ok(())
    }
}

fn check_token(text: &str) -> Result<(), Rule> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(Rule::TokenCharacter)
    }
}

fn decoded(auth: Text, findings: &mut Findings) -> Field<Option<Pair>> {
    let Field { place, value } = auth;
    let value = value.and_then(|value| {
        decode(&value)
            .map_err(|rule| findings.problem(&place, rule))
            .ok()
    });
    Field { place, value }
}

/// Decodes base64 of `user:password`; the first colon divides the two.
fn decode(auth: &str) -> Result<Pair, Rule> {
    // Long enough for any input, so that the buffer never moves.
    let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(auth.len())]);
    let length = BASE64
        .decode_slice(auth, &mut bytes)
        .map_err(|_| Rule::NotBase64)?;
    let text = std::str::from_utf8(&bytes[..length]).map_err(|_| Rule::EncodedNotUtf8)?;
    if text.chars().any(char::is_control) {
        return Err(Rule::EncodedControlCharacter);
    }
    let (username, password) = text.split_once(':').ok_or(Rule::NoColon)?;
    if username.is_empty() && password.is_empty() {
        return Err(Rule::EmptyPair);
    }
    let [username, password] = [username, password].map(|half| Zeroizing::new(half.to_owned()));
    Ok(Pair { username, password })
}
