//! The keys that say who the puller is, of an entry or of one of its further accounts, and what
//! they mean together.

use zeroize::Zeroizing;

use crate::credential_rule::{
    check_password, check_text, check_token, check_username, looks_sealed,
};
use crate::problem::Place;
use crate::section::Section;
use crate::{Credentials, Effect, ResourceUri, Rule, standard_base64};

/// The keys that hold a credential itself, the secret ones first.
const LITERAL: [&str; 5] = ["password", "auth", "identitytoken", "registrytoken", "username"];

type Text = Zeroizing<String>;

/// Who the puller is.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) credentials: Credentials,
    pub(crate) reference: Option<ResourceUri>,
    /// Where a credential itself is, a secret one rather than another.
    pub(crate) literal: Option<Place>,
}

impl Account {
    /// Reads the keys, each checked for itself and then against the others.
    pub(crate) fn read(section: &mut Section<'_, '_>) -> Self {
        let reference = reference("credentials-uri", section);
        let username = credential("username", section, check_username);
        let secret = |(key, check): (_, fn(&str) -> _)| {
            credential(key, section, |text| match looks_sealed(text) {
                true => Err(Rule::Sealed),
                false => check(text),
            })
        };
        let [password, auth, identity_token, registry_token] = [
            ("password", check_password as _),
            ("auth", check_text as _),
            ("identitytoken", check_text as _),
            ("registrytoken", check_token as _),
        ]
        .map(secret);
        let pair = auth.and_then(|auth| section.kept("auth", decode(&auth)));
        let literal = LITERAL.iter().find_map(|key| section.at(key));
        if section.has("credentials-uri") {
            section.needs("credentials-uri", literal.is_none(), Rule::ReferenceBesideCredentials);
            return Self { reference, ..Self::default() };
        }
        let [has_username, has_password, has_identity, has_bearer] =
            ["username", "password", "identitytoken", "registrytoken"].map(|key| section.has(key));
        // An identity token goes with a user name alone.
        let is_whole = has_password || has_identity;
        section.needs("username", is_whole, Rule::UsernameWithoutPassword);
        section.needs("password", has_username, Rule::PasswordWithoutUsername);
        let agrees = |text: &Option<Text>, half| text.as_ref().is_none_or(|text| text == half);
        let agree = pair
            .as_ref()
            .is_none_or(|(name, secret)| agrees(&username, name) && agrees(&password, secret));
        section.needs("auth", agree, Rule::PairsDisagree);
        // Two ways of authentication in one entry are legal, as in docker's files, but only one has
        // an effect.
        if has_bearer || has_identity {
            let stronger = if has_bearer { "registrytoken" } else { "identitytoken" };
            // `docker login` writes the user name of an identity token as `auth` with an empty
            // password.
            let has_secret = pair.as_ref().is_some_and(|(_, secret)| !secret.is_empty());
            for (is_weaker, key) in [
                (true, "password"),
                (has_bearer, "username"),
                (has_bearer, "identitytoken"),
                (has_bearer || has_secret, "auth"),
            ] {
                if is_weaker {
                    section.warn(key, Effect::Superseded { stronger });
                }
            }
        }
        let moved = |mut text: Text| std::mem::take(&mut *text);
        let credentials = if has_bearer {
            registry_token.map(|token| Credentials::RegistryToken(token.into()))
        } else if has_identity {
            let from_auth = || pair.map(|(name, _)| name).filter(|name| !name.is_empty());
            let username = username.or_else(from_auth).map(moved);
            identity_token.map(|token| Credentials::IdentityToken { username, token: token.into() })
        } else {
            username.zip(password).or(pair).map(|(username, password)| Credentials::Basic {
                username: moved(username),
                password: password.into(),
            })
        };
        Self { credentials: credentials.unwrap_or_default(), reference: None, literal }
    }
}

/// Takes a key that holds a credential.
fn credential(
    key: &'static str,
    section: &mut Section<'_, '_>,
    check: impl FnOnce(&str) -> Result<(), Rule>,
) -> Option<Text> {
    section.read(key, |field| {
        match field.text()? {
            "" => Err(Rule::EmptyCredential),
            text => check(text),
        }?;
        Ok(field.secret()?)
    })
}

/// Takes a key that refers to a secret.
pub(crate) fn reference(key: &'static str, section: &mut Section<'_, '_>) -> Option<ResourceUri> {
    let text = section.text(key)?;
    let reference = section.kept(key, ResourceUri::parse_from(section.findings.origin, text))?;
    if ResourceUri::names_host(text) {
        section.warn(key, Effect::HostOfBroker);
    }
    Some(reference)
}

/// Decodes base64 of `user:password`; the first colon divides the two.
fn decode(auth: &str) -> Result<(Text, Text), Rule> {
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
    let copy = |half: &str| Zeroizing::new(half.to_owned());
    Ok((copy(username), copy(password)))
}
