//! Who the puller is to a registry.

use std::fmt;

use crate::Secret;
use crate::secret::REDACTED;

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
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Anonymous => "Anonymous",
            Self::Basic { .. } => "Basic",
            Self::RegistryToken(_) => "RegistryToken",
            Self::IdentityToken { .. } => "IdentityToken",
        };
        match self.shown_username() {
            Some(username) => {
                f.debug_struct(kind).field("username", &username).finish_non_exhaustive()
            }
            None => f.write_str(kind),
        }
    }
}
