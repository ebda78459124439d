//! The three forms of a message (RFC 7516 section 7) read into one.

use zeroize::Zeroizing;

use super::content::Content;
use super::error::JweError;
use super::limits::{MAX_ENCRYPTED_KEY_BYTES, MAX_HEADER_BYTES, MAX_RECIPIENTS, MAX_TEXT_BYTES};
use crate::algorithm::ContentEncryption;
use crate::json::{self, Kind, Object, Text};

/// A message's members, whichever form they came in.
#[derive(Debug)]
pub(super) struct Members<'a> {
    /// As it was written: this text is authenticated, not what it means.
    protected_text: Option<Text<'a>>,
    protected: Option<Zeroizing<Vec<u8>>>,
    unprotected: Option<Object<'a>>,
    recipients: Vec<Entry<'a>>,
    aad: Option<Text<'a>>,
    iv: Vec<u8>,
    ciphertext: Vec<u8>,
    tag: Vec<u8>,
}

/// A recipient's own header, and the content's key as it was wrapped for it.
type Entry<'a> = (Option<Object<'a>>, Vec<u8>);

impl<'a> Members<'a> {
    pub(super) fn read(text: &'a [u8]) -> Result<Self, JweError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(JweError::TooLong);
        }
        match text.trim_ascii_start().first() {
            Some(b'{') => Self::read_json(text),
            _ => Self::read_compact(text),
        }
    }

    fn read_compact(text: &'a [u8]) -> Result<Self, JweError> {
        const FORM: JweError =
            JweError::Malformed("is neither a JSON object nor five parts with dots between");
        let text = str::from_utf8(text).map_err(|_| FORM)?;
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(FORM);
        let (protected, encrypted_key, iv, ciphertext, tag) =
            (next()?, next()?, next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(FORM);
        }
        Ok(Self {
            protected: Some(decode_protected(protected)?),
            protected_text: Some(Text::Borrowed(protected)),
            unprotected: None,
            recipients: vec![(None, check_key(decode(encrypted_key)?)?)],
            aad: None,
            iv: decode(iv)?,
            ciphertext: decode(ciphertext)?,
            tag: decode(tag)?,
        })
    }

    fn read_json(text: &'a [u8]) -> Result<Self, JweError> {
        let mut members = json::object(text).map_err(JweError::Malformed)?;
        let recipients = read_recipients(&mut members)?;
        let protected_text = take_text(&mut members, "protected")?;
        let aad = take_text(&mut members, "aad")?;
        if let Some(aad) = &aad {
            decode(aad)?;
        }
        Ok(Self {
            protected: protected_text.as_deref().map(decode_protected).transpose()?,
            protected_text,
            unprotected: take_object(&mut members, "unprotected")?,
            recipients,
            aad,
            iv: take_bytes(&mut members, "iv")?,
            ciphertext: take_bytes(&mut members, "ciphertext")?,
            tag: take_bytes(&mut members, "tag")?,
        })
    }

    /// The protected header, if there is one.
    pub(super) fn protected(&self) -> Result<Option<Object<'_>>, JweError> {
        const HEADER: JweError = JweError::Malformed(
            "has a protected header that is no JSON object, or has a member twice",
        );
        let header = self.protected.as_ref().map(|text| json::object(text));
        header.transpose().map_err(|_| HEADER)
    }

    pub(super) fn unprotected(&self) -> Option<&Object<'a>> {
        self.unprotected.as_ref()
    }

    /// The recipients, in their order.
    pub(super) fn recipients(&self) -> impl Iterator<Item = (Option<&Object<'a>>, &[u8])> {
        let recipients = self.recipients.iter();
        recipients.map(|(header, encrypted_key)| (header.as_ref(), encrypted_key.as_slice()))
    }

    /// The content, with what is authenticated beside it (RFC 7516 section 5.1, step 14).
    pub(super) fn content(self, encryption: ContentEncryption) -> Result<Content, JweError> {
        let protected = self.protected_text.as_deref().unwrap_or_default();
        let authenticated = match self.aad.as_deref() {
            Some(aad) => format!("{protected}.{aad}").into_bytes(),
            None => protected.as_bytes().to_vec(),
        };
        Content::new(encryption, authenticated, self.iv, self.ciphertext, self.tag)
    }
}

fn read_recipients<'a>(members: &mut Object<'a>) -> Result<Vec<Entry<'a>>, JweError> {
    let Some(list) = members.take("recipients") else {
        let header = take_object(members, "header")?;
        return Ok(vec![(header, take_key(members)?)]);
    };
    let Kind::Array(list) = list.kind else {
        return Err(JweError::Malformed("has recipients that are no JSON array"));
    };
    if list.is_empty() {
        return Err(JweError::Malformed("has no recipients"));
    }
    if list.len() > MAX_RECIPIENTS {
        return Err(JweError::TooManyRecipients);
    }
    if members.last("header").is_some() {
        return Err(JweError::Malformed("has both a header and recipients"));
    }
    let mut recipients = Vec::new();
    for entry in list {
        let Kind::Object(mut entry) = entry.kind else {
            return Err(JweError::Malformed("has a recipient that is no JSON object"));
        };
        let header = take_object(&mut entry, "header")?;
        recipients.push((header, take_key(&mut entry)?));
    }
    if members.last("encrypted_key").is_some() {
        // What go-jose leaves behind. A reader that knows the flattened form only would use it.
        let outer = take_key(members)?;
        if recipients.first().is_none_or(|(_, first)| *first != outer) {
            return Err(JweError::Malformed(
                "has an encrypted_key beside recipients that is not the first recipient's",
            ));
        }
    }
    Ok(recipients)
}

fn take_key(entry: &mut Object<'_>) -> Result<Vec<u8>, JweError> {
    check_key(take_bytes(entry, "encrypted_key")?)
}

fn check_key(encrypted_key: Vec<u8>) -> Result<Vec<u8>, JweError> {
    if encrypted_key.len() > MAX_ENCRYPTED_KEY_BYTES {
        return Err(JweError::Malformed(
            "has an encrypted_key that is longer than any key makes it",
        ));
    }
    Ok(encrypted_key)
}

fn decode_protected(text: &str) -> Result<Zeroizing<Vec<u8>>, JweError> {
    if text.len() > MAX_HEADER_BYTES {
        return Err(JweError::Malformed("has a protected header that is too long"));
    }
    json::base64url(text).ok_or(JweError::Malformed("has a protected header that is not base64url"))
}

fn decode(text: &str) -> Result<Vec<u8>, JweError> {
    match json::base64url(text) {
        Some(mut bytes) => Ok(std::mem::take(&mut *bytes)),
        None => Err(JweError::Malformed("has a part that is not base64url without padding")),
    }
}

fn take_text<'a>(
    members: &mut Object<'a>,
    name: &'static str,
) -> Result<Option<Text<'a>>, JweError> {
    match members.take(name).map(|value| value.kind) {
        None => Ok(None),
        Some(Kind::Text(text)) => Ok(Some(text)),
        Some(_) => Err(JweError::Malformed(match name {
            "protected" => "has a protected header that is no text",
            _ => "has a member that should be a text and is none",
        })),
    }
}

fn take_bytes(members: &mut Object<'_>, name: &'static str) -> Result<Vec<u8>, JweError> {
    match take_text(members, name)? {
        Some(text) => decode(&text),
        None => Err(JweError::Malformed(match name {
            "encrypted_key" => {
                "has a recipient without encrypted_key; only wrapped keys are supported"
            }
            "iv" => "has no iv",
            "ciphertext" => "has no ciphertext",
            _ => "has no tag",
        })),
    }
}

fn take_object<'a>(
    members: &mut Object<'a>,
    name: &'static str,
) -> Result<Option<Object<'a>>, JweError> {
    match members.take(name).map(|value| value.kind) {
        None => Ok(None),
        Some(Kind::Object(object)) => Ok(Some(object)),
        Some(_) => Err(JweError::Malformed("has a header that is no JSON object")),
    }
}
