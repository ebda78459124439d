//! One entry of a docker configuration: what is to be sent to a registry.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use puller_config::Secret;
use zeroize::Zeroizing;

use crate::Offered;

/// Base64 with or without padding: docker's readers differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

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
}

/// What an entry offers.
#[derive(Clone, Debug)]
pub(crate) struct Meaning {
    /// `None` if it holds no credentials.
    pub(crate) offered: Option<Offered>,
    /// What is worth knowing about it.
    pub(crate) notes: Vec<&'static str>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

impl Entry {
    /// The strongest credentials that the entry has.
    ///
    /// # Errors
    ///
    /// Why it has none that can be used, as a fragment.
    pub(crate) fn meaning(&self) -> Result<Meaning, &'static str> {
        let mut notes = Vec::new();
        if !self.registry_token.is_empty() {
            if !self.identity_token.is_empty() || !self.password.is_empty() {
                notes.push("its \"registrytoken\" is used, the weaker credentials are not");
            }
            let offered = Some(Offered::RegistryToken(self.registry_token.clone().into()));
            return Ok(Meaning { offered, notes });
        }
        if !self.identity_token.is_empty() {
            if !self.password.is_empty() {
                notes.push("its \"identitytoken\" is used, the password is not");
            }
            let offered = Some(Offered::IdentityToken(self.identity_token.clone().into()));
            return Ok(Meaning { offered, notes });
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
        let password = trimmed(password, &mut notes);
        if username.is_empty() && password.is_empty() {
            return Ok(Meaning {
                offered: None,
                notes,
            });
        }
        let offered = Some(Offered::Password {
            username: username.to_string(),
            password: Secret::from(password),
        });
        Ok(Meaning { offered, notes })
    }
}

/// Decodes base64 of `user:password`; the first colon divides the two.
fn decode(auth: &str) -> Result<(Zeroizing<String>, Zeroizing<String>), &'static str> {
    // Go's decoder skips line ends, and wrapped base64 is common.
    let mut compact = Zeroizing::new(String::with_capacity(auth.len()));
    compact.extend(
        auth.trim()
            .chars()
            .filter(|letter| !matches!(letter, '\r' | '\n')),
    );
    let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(compact.len())]);
    let length = BASE64
        .decode_slice(compact.as_bytes(), &mut bytes)
        .map_err(|_| "its \"auth\" is not base64")?;
    let text = std::str::from_utf8(&bytes[..length])
        .map_err(|_| "its \"auth\" does not decode to UTF-8 text")?;
    let (username, password) = text
        .split_once(':')
        .ok_or("its \"auth\" has no colon between user name and password")?;
    let copy = |half: &str| Zeroizing::new(half.to_owned());
    Ok((copy(username), copy(password)))
}

/// The password without what `echo` and C programs leave at its end; a document could not have it there anyway.
fn trimmed(password: Zeroizing<String>, notes: &mut Vec<&'static str>) -> Zeroizing<String> {
    let text = password.trim_end_matches('\0');
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.len() == password.len() {
        return password;
    }
    notes.push("its password ended in a line end or a zero byte, which is cut off");
    Zeroizing::new(text.to_owned())
}
