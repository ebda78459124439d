//! One entry of a docker configuration: what is to be sent to a registry.

use std::fmt;

use registry_config::credential_rule::{
    self, check_password, check_text, check_token, check_username,
};
use registry_config::{Credentials, Rule, Secret, decode_base64};
use thiserror::Error;
use zeroize::Zeroizing;

/// The fields of an entry as they are written; absent ones are empty. `Debug` says nothing of them.
#[derive(Clone, Default)]
pub struct Entry {
    /// The user.
    pub username: Zeroizing<String>,
    /// The password.
    pub password: Zeroizing<String>,
    /// Base64 of both, with a colon between.
    pub auth: Zeroizing<String>,
    /// A refresh token.
    pub identity_token: Zeroizing<String>,
    /// A bearer token.
    pub registry_token: Zeroizing<String>,
    /// Whether one of these was written twice.
    pub(crate) is_ambiguous: bool,
}

/// What an entry says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Meaning {
    /// What is to be sent; anonymous if the entry holds no credentials.
    pub credentials: Credentials,
    /// What is worth knowing about it, as fragments.
    pub notes: Vec<&'static str>,
}

/// Why an entry's credentials cannot be used, as a fragment that shows none of them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unusable {
    /// `auth` is not base64.
    #[error("its \"auth\" is not base64")]
    NotBase64,
    /// `auth` is base64 of bytes that are not text.
    #[error("its \"auth\" does not decode to UTF-8 text")]
    NotUtf8,
    /// `auth` is base64 of something else than a pair.
    #[error("its \"auth\" has no colon between user name and password")]
    NoColon,
    /// `auth` is base64 of base64 of a pair.
    #[error("its \"auth\" has no colon between user name and password: base64 twice?")]
    Base64Twice,
    /// A document could not have such credentials, because no request can carry them.
    #[error("a document cannot have its credentials: {0}")]
    Rule(Rule),
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

impl Entry {
    /// The strongest credentials that the entry has. The rules of [`Credentials`] hold for them.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if it has some, but none that can be used.
    pub fn meaning(&self) -> Result<Meaning, Unusable> {
        let mut notes = Vec::new();
        let credentials = self.strongest(&mut notes)?;
        check(&credentials).map_err(Unusable::Rule)?;
        Ok(Meaning { credentials, notes })
    }

    fn strongest(&self, notes: &mut Vec<&'static str>) -> Result<Credentials, Unusable> {
        if !self.registry_token.is_empty() {
            if !self.identity_token.is_empty() || !self.password.is_empty() {
                notes.push("its \"registrytoken\" is used, the weaker credentials are not");
            }
            return Ok(Credentials::RegistryToken(self.registry_token.clone().into()));
        }
        if !self.identity_token.is_empty() {
            if !self.password.is_empty() {
                notes.push("its \"identitytoken\" is used, the password is not");
            }
            return Ok(Credentials::IdentityToken {
                username: self.account(),
                token: self.identity_token.clone().into(),
            });
        }
        let (username, password) = if self.auth.is_empty() {
            (self.username.clone(), self.password.clone())
        } else {
            let (username, password) = decode(&self.auth)?;
            let differs = |field: &Zeroizing<String>, decoded: &Zeroizing<String>| {
                !field.is_empty() && **field != **decoded
            };
            if differs(&self.username, &username) || differs(&self.password, &password) {
                notes.push(
                    "its \"auth\" is used, the differing \"username\" and \"password\" are not",
                );
            }
            (username, password)
        };
        let password = trimmed(password, notes);
        if username.is_empty() && password.is_empty() {
            return Ok(Credentials::Anonymous);
        }
        Ok(Credentials::Basic { username: username.to_string(), password: Secret::from(password) })
    }

    /// The user of the identity token, where the entry has a usable name; servers rarely need it.
    fn account(&self) -> Option<String> {
        let from_auth = || decode(&self.auth).ok().map(|(username, _)| username);
        let username = if self.auth.is_empty() { Some(self.username.clone()) } else { from_auth() };
        username
            .filter(|username| check_username(username).is_ok() && !username.is_empty())
            .map(|username| username.to_string())
    }
}

/// Decodes base64 of `user:password`; the first colon divides the two.
fn decode(auth: &str) -> Result<(Zeroizing<String>, Zeroizing<String>), Unusable> {
    // Go's decoder skips line ends, and wrapped base64 is common.
    let mut compact = Zeroizing::new(String::with_capacity(auth.len()));
    compact.extend(auth.trim().chars().filter(|letter| !matches!(letter, '\r' | '\n')));
    let bytes = decode_base64(&compact).ok_or(Unusable::NotBase64)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Unusable::NotUtf8)?;
    let Some((username, password)) = text.split_once(':') else {
        return Err(match decode(text) {
            Ok(_) => Unusable::Base64Twice,
            Err(_) => Unusable::NoColon,
        });
    };
    let copy = |half: &str| Zeroizing::new(half.to_owned());
    Ok((copy(username), copy(password)))
}

/// Applies the document's rules, which are about what becomes part of a header or a form.
fn check(credentials: &Credentials) -> Result<(), Rule> {
    match credentials {
        Credentials::Anonymous => Ok(()),
        Credentials::Basic { username, password } => {
            check_username(username)?;
            check_password(password.expose())
        }
        Credentials::RegistryToken(token) => check_token(token.expose()),
        Credentials::IdentityToken { token, .. } => check_text(token.expose()),
    }
}

/// A password without what `echo` and C programs leave behind it: zero bytes, and one line end as
/// [`credential_rule::without_line_end`] has it.
#[must_use]
pub fn without_line_end(mut password: &[u8]) -> &[u8] {
    while let Some(shorter) = password.strip_suffix(b"\0") {
        password = shorter;
    }
    credential_rule::without_line_end(password)
}

fn trimmed(password: Zeroizing<String>, notes: &mut Vec<&'static str>) -> Zeroizing<String> {
    // Only whole characters go.
    let text = &password[..without_line_end(password.as_bytes()).len()];
    if text.len() == password.len() {
        return password;
    }
    notes.push("its password ended in a line end or a zero byte, which is cut off");
    Zeroizing::new(text.to_owned())
}
