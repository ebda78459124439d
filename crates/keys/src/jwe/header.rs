//! The joined header of one recipient (RFC 7516 section 4).

use std::collections::BTreeMap;

use super::MAX_PARTY_BYTES;
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
    pub(super) fn merge(headers: [Option<&'a Object<'a>>; 3]) -> Result<Self, &'static str> {
        let mut merged = BTreeMap::new();
        for (name, value) in headers.into_iter().flatten().flat_map(Object::members) {
            if merged.insert(name, value).is_some() {
                return Err("it has a member in two of its headers");
            }
        }
        if merged.contains_key("crit") {
            return Err(
                "it has critical extensions (crit), and none is supported; encrypt without them",
            );
        }
        if merged.contains_key("zip") {
            // What a length tells of compressed secrets, and how large they become, is more than
            // this is worth.
            return Err(
                "it is compressed (zip), which is not supported; encrypt without compression",
            );
        }
        Ok(Self(merged))
    }

    /// How the content is encrypted.
    pub(super) fn encryption(&self) -> Result<&'static ContentEncryption, String> {
        let name = self.text("enc")?.ok_or("it does not say how its content is encrypted (enc)")?;
        ContentEncryption::from_name(name).ok_or_else(|| {
            format!(
                "its content is encrypted with {}, which is not supported; use A256GCM, which is \
                what skopeo uses, or another of A128GCM, A192GCM, A128CBC-HS256, A192CBC-HS384 and \
                A256CBC-HS512",
                shown(name)
            )
        })
    }

    /// How the key is wrapped.
    pub(super) fn algorithm(&self) -> Result<&'a str, &'static str> {
        self.text("alg")?.ok_or("it has a recipient that does not say how its key is wrapped (alg)")
    }

    /// What the parties of a key agreement are called (`apu`, `apv`); usually nothing.
    pub(super) fn party(&self, name: &'static str) -> Result<Vec<u8>, &'static str> {
        let Some(text) = self.text(name)? else {
            return Ok(Vec::new());
        };
        let bytes = json::base64url(text)
            .ok_or("it has an apu or apv that is not base64url without padding")?;
        if bytes.len() > MAX_PARTY_BYTES {
            return Err("it has an apu or apv of more than 256 bytes");
        }
        Ok(bytes.to_vec())
    }

    /// The sender's key of a key agreement.
    pub(super) fn ephemeral(&self) -> Result<&'a Object<'a>, &'static str> {
        let key = self.0.get("epk").and_then(|key| key.object());
        key.ok_or("it has a recipient by key agreement without the sender's key (epk)")
    }

    fn text(&self, name: &'static str) -> Result<Option<&'a str>, &'static str> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value.text().map(Some).ok_or("it has a header member of a wrong type"),
        }
    }
}
