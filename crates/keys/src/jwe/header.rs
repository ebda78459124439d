//! The joined header of one recipient (RFC 7516 section 4).

use std::collections::BTreeMap;

use super::error::JweError;
use super::limits::MAX_PARTY_BYTES;
use crate::algorithm::{ContentEncryption, shown};
use crate::json::{self, Object, Value};

/// What the protected, the shared and the recipient's own header say together. What is not read
/// here is ignored, as section 4 has it.
#[derive(Debug)]
pub(super) struct Header<'a>(BTreeMap<&'a str, &'a Value<'a>>);

impl<'a> Header<'a> {
    /// Joins the headers that there are.
    ///
    /// # Errors
    ///
    /// If a member is in two of them, or asks for what is not supported in any message.
    pub(super) fn merge(headers: [Option<&'a Object<'a>>; 3]) -> Result<Self, JweError> {
        let mut merged = BTreeMap::new();
        for (name, value) in headers.into_iter().flatten().flat_map(Object::members) {
            if merged.insert(name, value).is_some() {
                return Err(JweError::Malformed("has a member in two of its headers"));
            }
        }
        if merged.contains_key("crit") {
            return Err(JweError::Critical);
        }
        if merged.contains_key("zip") {
            return Err(JweError::Compressed);
        }
        Ok(Self(merged))
    }

    /// How the content is encrypted.
    pub(super) fn encryption(&self) -> Result<ContentEncryption, JweError> {
        let name = self
            .text("enc")?
            .ok_or(JweError::Malformed("does not say how its content is encrypted (enc)"))?;
        ContentEncryption::from_name(name).ok_or_else(|| JweError::ContentEncryption(shown(name)))
    }

    /// How the key is wrapped.
    pub(super) fn algorithm(&self) -> Result<&'a str, JweError> {
        self.text("alg")?.ok_or(JweError::Malformed(
            "has a recipient that does not say how its key is wrapped (alg)",
        ))
    }

    /// What the parties of a key agreement are called (`apu`, `apv`); usually nothing.
    pub(super) fn party(&self, name: &'static str) -> Result<Vec<u8>, JweError> {
        let Some(text) = self.text(name)? else {
            return Ok(Vec::new());
        };
        match json::base64url(text) {
            Some(bytes) if bytes.len() > MAX_PARTY_BYTES => {
                Err(JweError::Malformed("has an apu or apv of more than 256 bytes"))
            }
            Some(bytes) => Ok(bytes.to_vec()),
            None => {
                Err(JweError::Malformed("has an apu or apv that is not base64url without padding"))
            }
        }
    }

    /// The sender's key of a key agreement.
    pub(super) fn ephemeral(&self) -> Result<&'a Object<'a>, JweError> {
        let key = self.0.get("epk").and_then(|key| key.object());
        key.ok_or(JweError::Malformed(
            "has a recipient by key agreement without the sender's key (epk)",
        ))
    }

    fn text(&self, name: &'static str) -> Result<Option<&'a str>, JweError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value
                .text()
                .map(Some)
                .ok_or(JweError::Malformed("has a header member of a wrong type")),
        }
    }
}
