//! What a source says about one registry.

use std::fmt;

use registry_config::{Credentials, Secret};

/// What a source says about one registry, in the document's terms.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The registry's key as the document writes it, such as `ghcr.io.`, `reg.corp:5000` or
    /// `.azurecr.io`.
    pub name: String,
    /// What is offered for it.
    pub offered: Offered,
    /// Where it comes from, for people: a file, a secret, a plugin. Never a value.
    pub source: String,
}

/// What may be offered. `Debug` shows no secret, and no user name either: some registries take a
/// token in its place.
#[derive(Clone)]
#[non_exhaustive]
pub enum Offered {
    /// A user name and its password, of which one may be empty.
    Password {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A refresh token for the OAuth2 flow.
    IdentityToken(Secret),
    /// A bearer token, sent to the registry as it is.
    RegistryToken(Secret),
}

impl Offered {
    /// What a document's credentials offer; the account of an identity token is not among it.
    pub(crate) fn of(credentials: Credentials) -> Option<Self> {
        Some(match credentials {
            Credentials::Anonymous => return None,
            Credentials::Basic { username, password } => Self::Password { username, password },
            Credentials::IdentityToken { token, .. } => Self::IdentityToken(token),
            Credentials::RegistryToken(token) => Self::RegistryToken(token),
        })
    }
}

impl From<&Offered> for Credentials {
    fn from(offered: &Offered) -> Self {
        match offered.clone() {
            Offered::Password { username, password } => Self::Basic { username, password },
            Offered::IdentityToken(token) => Self::IdentityToken { username: None, token },
            Offered::RegistryToken(token) => Self::RegistryToken(token),
        }
    }
}

/// Whether two offers make the puller send the same.
impl PartialEq for Offered {
    fn eq(&self, other: &Self) -> bool {
        self.keys() == other.keys()
    }
}

impl Eq for Offered {}

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Password",
            Self::IdentityToken(_) => "IdentityToken",
            Self::RegistryToken(_) => "RegistryToken",
        })
    }
}
