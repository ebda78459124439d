//! Who the puller is to a registry.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::credential_rule::{
    check_password, check_text, check_token, check_username, looks_sealed,
};
use crate::secret::REDACTED;
use crate::{Rule, Secret};

/// How to authenticate to a registry. `Debug` shows no secret, and a user name only by
/// [`Credentials::shown_username`].
#[derive(Clone, Default)]
pub enum Credentials {
    /// Not at all.
    #[default]
    Anonymous,
    /// With HTTP Basic authentication, at the registry or at its token server. At most one of the
    /// two is empty.
    Basic {
        /// The user name; free of colons and control characters.
        username: String,
        /// The password; free of control characters other than line ends and tabs.
        password: Secret,
    },
    /// With this token as `Authorization: Bearer`, no token server being asked; visible ASCII only.
    RegistryToken(Secret),
    /// With an OAuth2 refresh token, exchanged at the token server.
    IdentityToken {
        /// The account that the token belongs to, where the document names it; not empty, free of
        /// control characters.
        username: Option<String>,
        /// The refresh token; free of control characters.
        token: Secret,
    },
}

impl Credentials {
    /// Whether there is nothing to send.
    pub fn is_anonymous(&self) -> bool {
        matches!(self, Self::Anonymous)
    }

    /// Whether an entry can have them.
    ///
    /// # Errors
    ///
    /// The first rule that they break; it shows no value.
    pub fn check(&self) -> Result<(), Rule> {
        let (token, check) = match self {
            Self::Anonymous => return Ok(()),
            Self::Basic { username, password } => {
                if username.is_empty() && password.expose().is_empty() {
                    return Err(Rule::EmptyPair);
                }
                let auth = self.auth();
                auth.as_ref().map_or(Ok(()), |auth| check_text(auth))?;
                let checks = check_username(username);
                let checks = checks.and_then(|()| check_password(password.expose()));
                return checks.map_err(|rule| auth.map_or(rule, |_| Rule::EncodedControlCharacter));
            }
            Self::RegistryToken(token) => (token, check_token as fn(&str) -> _),
            Self::IdentityToken { username, token } => {
                check_username(username.as_deref().unwrap_or_default())?;
                (token, check_text as _)
            }
        };
        match token.expose() {
            "" => Err(Rule::EmptyCredential),
            token if looks_sealed(token) => Err(Rule::Sealed),
            token => check(token),
        }
    }

    /// The pair as the `auth` of docker's files, where the document refuses it under keys of its
    /// own: an empty half, and a password that looks like a sealed secret. A colon in the user name
    /// would end that in an `auth`.
    pub(crate) fn auth(&self) -> Option<Zeroizing<String>> {
        let Self::Basic { username, password } = self else {
            return None;
        };
        let password = password.expose();
        let is_half = username.is_empty() || password.is_empty();
        if username.contains(':') || !is_half && !looks_sealed(password) {
            return None;
        }
        // The buffers never move, so that no copy of the secret is left behind.
        let length = username.len() + 1 + password.len();
        let mut pair = Zeroizing::new(String::with_capacity(length));
        pair.extend([username, ":", password]);
        Some(Zeroizing::new(STANDARD.encode(pair.as_bytes())))
    }

    /// The user name as it may be shown: hidden where the password is empty, because then the name
    /// is the secret. Some registries take a token that way.
    pub fn shown_username(&self) -> Option<&str> {
        match self {
            Self::Basic { password, .. } if password.expose().is_empty() => Some(REDACTED),
            Self::Basic { username, .. } => Some(username),
            Self::IdentityToken { username, .. } => username.as_deref(),
            Self::Anonymous | Self::RegistryToken(_) => None,
        }
    }

    /// The kind, the user name and the secret.
    fn parts(&self) -> (&'static str, &str, &str) {
        match self {
            Self::Anonymous => ("Anonymous", "", ""),
            Self::Basic { username, password } => ("Basic", username, password.expose()),
            Self::RegistryToken(token) => ("RegistryToken", "", token.expose()),
            Self::IdentityToken { username, token } => {
                ("IdentityToken", username.as_deref().unwrap_or_default(), token.expose())
            }
        }
    }
}

/// Whether both make the puller send the same.
impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Credentials {}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, ..) = self.parts();
        match self.shown_username() {
            Some(username) => {
                f.debug_struct(kind).field("username", &username).finish_non_exhaustive()
            }
            None => f.write_str(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Registry, RegistryName};

    fn basic(username: &str, password: &str) -> Credentials {
        Credentials::Basic { username: username.into(), password: password.to_owned().into() }
    }

    fn token(text: &str) -> Credentials {
        Credentials::RegistryToken(text.to_owned().into())
    }

    fn identity(username: Option<&str>, text: &str) -> Credentials {
        let token = text.to_owned().into();
        Credentials::IdentityToken { username: username.map(str::to_owned), token }
    }

    /// What a document with one entry says, whose text is given too.
    fn read_back(credentials: &Credentials) -> Option<(Credentials, String)> {
        let name = RegistryName::parse("r").unwrap();
        let mut config = Document::default();
        let entry = Registry { credentials: credentials.clone(), ..Registry::default() };
        config.registries.set(name.clone(), entry);
        let text = config.to_toml().unwrap();
        let read = Document::parse(text.as_bytes()).ok()?.document;
        let entry = read.registries.get(&name)?;
        assert!(entry.credentials_uri.is_none());
        Some((entry.credentials.clone(), text.to_string()))
    }

    /// The fuzzer found that a password which begins with `sealed.` was left out of the document.
    #[test]
    fn what_passes_the_check_is_read_back() {
        for (credentials, is_auth) in [
            (Credentials::Anonymous, false),
            (basic("u", "p"), false),
            (basic("u", "Sealed.p"), false),
            (basic("u", ""), true),
            (basic("", "p"), true),
            (basic("u", "p:sealed."), false),
            (basic("u", "sealed."), true),
            (basic("u", "sealed.p--"), true),
            (basic("sealed.u", "sealed.p:q"), true),
            (basic("", "sealed.p"), true),
            // Well-formed, and still somebody's password.
            (basic("u", "sealed.YQ.YQ.YQ"), true),
            // A file.
            (basic("u", "{\r\n\t\"a\": 'b'\r\n}\r\n"), false),
            (basic("u", "sealed.\n}\n"), true),
            (token("t"), false),
            (identity(None, "t"), false),
            (identity(Some("u"), "t"), false),
        ] {
            assert_eq!(credentials.check(), Ok(()), "{credentials:?}");
            let (read, text) = read_back(&credentials).unwrap();
            assert!(read == credentials, "{text}");
            assert_eq!(text.contains("auth = "), is_auth, "{text}");
        }
    }

    #[test]
    fn what_the_document_refuses_is_refused_without_its_value() {
        for (credentials, rule) in [
            (basic("a:b", "hunter2"), Rule::ColonInUsername),
            // As `auth`, the user name would end at its own colon.
            (basic("a:b", ""), Rule::ColonInUsername),
            (basic("a:b", "sealed.hunter2"), Rule::ColonInUsername),
            (basic("", ""), Rule::EmptyPair),
            (basic("a", "hunter2\n"), Rule::LineEndOfPassword),
            (basic("a\n", "hunter2"), Rule::ControlCharacter),
            (basic("a", "sealed.hunter2\n"), Rule::EncodedControlCharacter),
            (basic("a", &"hunter2".repeat(4000)), Rule::CredentialTooLong),
            (basic("a", &format!("sealed.{}", "x".repeat(13_000))), Rule::CredentialTooLong),
            (token("hunter 2"), Rule::TokenCharacter),
            // A token cannot be written in another way.
            (identity(None, "sealed.hunter2"), Rule::Sealed),
            (token("sealed.hunter2"), Rule::Sealed),
            (token(""), Rule::EmptyCredential),
            (identity(Some("a:b"), "hunter2"), Rule::ColonInUsername),
        ] {
            assert_eq!(credentials.check(), Err(rule), "{credentials:?}");
            assert!(read_back(&credentials).is_none(), "{credentials:?}");
        }
    }
}
