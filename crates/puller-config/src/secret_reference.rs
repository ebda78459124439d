//! Where the guest gets a secret that never passes the host.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::limits::MAX_SEALED_BYTES;
use crate::problem::Origin;
use crate::resource_uri::RESOURCE_PLUGIN;
use crate::secret::REDACTED;
use crate::{InvalidResourceUri, ResourceUri, Rule, Secret};

/// What a sealed secret begins with.
const SEALED: &str = "sealed.";

/// A secret that only the guest can get. Neither kind tells it to whoever reads the document.
#[derive(Clone, Debug)]
pub enum SecretReference {
    /// The name under which a key broker keeps it.
    Resource(ResourceUri),
    /// The text `sealed.` and a compact JWS (RFC 7515, section 3.1), signed by the secret's owner,
    /// so that nobody between owner and guest can point it elsewhere. Its shape is checked here,
    /// nothing else.
    Sealed(Secret),
}

/// Why a text refers to no secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidSecretReference {
    /// It is not the URI of a resource.
    #[error(transparent)]
    Uri(#[from] InvalidResourceUri),
    /// It begins like a sealed secret.
    #[error(
        "a sealed secret is \"sealed.\" and three parts with dots between them, each base64url \
        without padding, without line ends"
    )]
    Sealed,
    /// It is longer than [`MAX_SEALED_BYTES`].
    #[error("a sealed secret has at most {MAX_SEALED_BYTES} bytes")]
    SealedTooLong,
}

impl SecretReference {
    /// Reads a resource URI or a sealed secret.
    ///
    /// # Errors
    ///
    /// What the text would have to be; it quotes no part of a sealed secret.
    pub fn parse(text: &str) -> Result<Self, InvalidSecretReference> {
        if !Self::looks_sealed(text) {
            return Ok(Self::Resource(ResourceUri::parse(text)?));
        }
        if text.len() > MAX_SEALED_BYTES {
            return Err(InvalidSecretReference::SealedTooLong);
        }
        let mut parts = 0;
        for part in text[SEALED.len()..].split('.') {
            parts += 1;
            if part.is_empty() || !is_base64url(part) {
                return Err(InvalidSecretReference::Sealed);
            }
        }
        if parts == 3 {
            Ok(Self::Sealed(Secret::from(text.to_owned())))
        } else {
            Err(InvalidSecretReference::Sealed)
        }
    }

    /// Reads what a document refers to. Another plugin than `resource` may make something up, on
    /// parameters of whoever names it, or do something: what is asked of it is the owner's to say.
    pub(crate) fn parse_from(origin: Origin, text: &str) -> Result<Self, Rule> {
        let reference = Self::parse(text)?;
        if origin == Origin::Host && reference.names_plugin() {
            return Err(Rule::PluginOfHost);
        }
        Ok(reference)
    }

    /// Whether it names another plugin of the broker than `resource`, which only the measured
    /// document may ([`Rule::PluginOfHost`]). Where a sealed secret points is signed by its owner,
    /// and not looked at here.
    pub fn names_plugin(&self) -> bool {
        matches!(self, Self::Resource(uri) if uri.plugin() != RESOURCE_PLUGIN)
    }

    /// Whether the text of a reference names a host, which decides nothing.
    pub(crate) fn names_host(text: &str) -> bool {
        let rest = text.split_once("://").map(|(_, rest)| rest);
        !Self::looks_sealed(text) && rest.is_some_and(|rest| !rest.starts_with('/'))
    }

    /// Whether a text is meant as a sealed secret.
    pub fn looks_sealed(text: &str) -> bool {
        text.starts_with(SEALED)
    }
}

/// A resource by its URI, of a sealed secret only that it is one.
impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(uri) => uri.fmt(f),
            Self::Sealed(_) => write!(f, "{SEALED}{REDACTED}"),
        }
    }
}

/// As it may be shown.
impl Serialize for SecretReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a text decodes. What it decodes to may be a secret, so it is zeroed.
fn is_base64url(part: &str) -> bool {
    let mut bytes = zeroize::Zeroizing::new(vec![0; base64::decoded_len_estimate(part.len())]);
    URL_SAFE_NO_PAD.decode_slice(part, &mut bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_a_uri_or_a_sealed_secret() {
        for (text, shown) in [
            ("kbs://kbs.corp/a/b/c", "kbs:///a/b/c"),
            ("sealed.YQ.aHVudGVyMg.Yw", "sealed.[redacted]"),
        ] {
            let reference = SecretReference::parse(text).unwrap();
            assert_eq!(reference.to_string(), shown);
            assert_eq!(serde_json::to_value(&reference).unwrap(), shown);
            assert!(!format!("{reference:?}").contains("aHVudGVyMg"));
        }
        let sealed = SecretReference::parse("sealed.YQ.aHVudGVyMg.Yw").unwrap();
        let SecretReference::Sealed(text) = &sealed else {
            panic!("{sealed}");
        };
        assert_eq!(text.expose(), "sealed.YQ.aHVudGVyMg.Yw");
    }

    #[test]
    fn what_is_neither_is_refused_without_being_quoted() {
        let long = format!("sealed.YQ.YQ.{}", "A".repeat(MAX_SEALED_BYTES));
        for (text, expected) in [
            ("hunter2", InvalidSecretReference::Uri(InvalidResourceUri::Scheme)),
            ("Sealed.YQ.YQ.YQ", InvalidSecretReference::Uri(InvalidResourceUri::Scheme)),
            ("sealed.", InvalidSecretReference::Sealed),
            ("sealed.YQ.hunter2", InvalidSecretReference::Sealed),
            ("sealed.YQ.YQ.YQ.YQ", InvalidSecretReference::Sealed),
            ("sealed.YQ.YQ.", InvalidSecretReference::Sealed),
            ("sealed.YQ.hunter2!.YQ", InvalidSecretReference::Sealed),
            ("sealed.YQ==.YQ.YQ", InvalidSecretReference::Sealed),
            ("sealed.YQ.YQ.YQ\n", InvalidSecretReference::Sealed),
            ("sealed.YQ.Y+/Q.YQ", InvalidSecretReference::Sealed),
            (&long, InvalidSecretReference::SealedTooLong),
        ] {
            let error = SecretReference::parse(text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
