//! The three forms of a message (RFC 7516 section 7) read into one.

use zeroize::Zeroizing;

use super::content::Content;
use super::{MAX_ENCRYPTED_KEY_BYTES, MAX_HEADER_BYTES, MAX_RECIPIENTS};
use crate::algorithm::ContentEncryption;
use crate::json::{self, Kind, Object, Text};

/// A message's members, whichever form they came in.
#[derive(Debug)]
pub(super) struct Members<'a> {
    /// As it was written: this text is authenticated, not what it means.
    protected_text: Option<Text<'a>>,
    protected: Option<Zeroizing<Vec<u8>>>,
    pub(super) unprotected: Option<Object<'a>>,
    /// In their order.
    pub(super) recipients: Vec<Entry<'a>>,
    aad: Option<Text<'a>>,
    iv: Vec<u8>,
    ciphertext: Vec<u8>,
    tag: Vec<u8>,
}

/// A recipient's own header, and the content's key as it was wrapped for it.
pub(super) type Entry<'a> = (Option<Object<'a>>, Vec<u8>);

impl<'a> Members<'a> {
    pub(super) fn read(text: &'a [u8]) -> Result<Self, String> {
        match text.trim_ascii_start().first() {
            Some(b'{') => Self::read_json(text),
            _ => Ok(Self::read_compact(text)?),
        }
    }

    fn read_compact(text: &'a [u8]) -> Result<Self, &'static str> {
        const FORM: &str = "it is neither a JSON object nor five parts with dots between";
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

    fn read_json(text: &'a [u8]) -> Result<Self, String> {
        let mut members = json::object(text).map_err(|rule| format!("it {rule}"))?;
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
    pub(super) fn protected(&self) -> Result<Option<Object<'_>>, &'static str> {
        const HEADER: &str =
            "it has a protected header that is no JSON object, or has a member twice";
        let header = self.protected.as_ref().map(|text| json::object(text));
        header.transpose().map_err(|_| HEADER)
    }

    /// The content, with what is authenticated beside it (RFC 7516 section 5.1, step 14).
    pub(super) fn content(
        self,
        encryption: &'static ContentEncryption,
    ) -> Result<Content, &'static str> {
        let protected = self.protected_text.as_deref().unwrap_or_default();
        let authenticated = match self.aad.as_deref() {
            Some(aad) => format!("{protected}.{aad}").into_bytes(),
            None => protected.as_bytes().to_vec(),
        };
        if self.iv.len() != encryption.iv_bytes {
            return Err("it has an iv of a wrong length");
        }
        // A tag that may be shorter is one that can be guessed.
        if self.tag.len() != encryption.tag_bytes {
            return Err("it has a tag of a wrong length");
        }
        let (iv, ciphertext, tag) = (self.iv, self.ciphertext, self.tag);
        Ok(Content { encryption, authenticated, iv, ciphertext, tag })
    }
}

fn read_recipients<'a>(members: &mut Object<'a>) -> Result<Vec<Entry<'a>>, &'static str> {
    let Some(list) = members.take("recipients") else {
        let header = take_object(members, "header")?;
        return Ok(vec![(header, take_key(members)?)]);
    };
    let Kind::Array(list) = list.kind else {
        return Err("it has recipients that are no JSON array");
    };
    if list.is_empty() {
        return Err("it has no recipients");
    }
    if list.len() > MAX_RECIPIENTS {
        return Err("it has more than 32 recipients");
    }
    if members.last("header").is_some() {
        return Err("it has both a header and recipients");
    }
    let mut recipients = Vec::new();
    for entry in list {
        let Kind::Object(mut entry) = entry.kind else {
            return Err("it has a recipient that is no JSON object");
        };
        let header = take_object(&mut entry, "header")?;
        recipients.push((header, take_key(&mut entry)?));
    }
    if members.last("encrypted_key").is_some() {
        // What go-jose leaves behind. A reader that knows the flattened form only would use it.
        let outer = take_key(members)?;
        if recipients.first().is_none_or(|(_, first)| *first != outer) {
            return Err(
                "it has an encrypted_key beside recipients that is not the first recipient's",
            );
        }
    }
    Ok(recipients)
}

fn take_key(entry: &mut Object<'_>) -> Result<Vec<u8>, &'static str> {
    check_key(take_bytes(entry, "encrypted_key")?)
}

fn check_key(encrypted_key: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    if encrypted_key.len() > MAX_ENCRYPTED_KEY_BYTES {
        return Err("it has an encrypted_key that is longer than any key makes it");
    }
    Ok(encrypted_key)
}

fn decode_protected(text: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    if text.len() > MAX_HEADER_BYTES {
        return Err("it has a protected header that is too long");
    }
    json::base64url(text).ok_or("it has a protected header that is not base64url")
}

fn decode(text: &str) -> Result<Vec<u8>, &'static str> {
    match json::base64url(text) {
        Some(mut bytes) => Ok(std::mem::take(&mut *bytes)),
        None => Err("it has a part that is not base64url without padding"),
    }
}

fn take_text<'a>(
    members: &mut Object<'a>,
    name: &'static str,
) -> Result<Option<Text<'a>>, &'static str> {
    match members.take(name).map(|value| value.kind) {
        None => Ok(None),
        Some(Kind::Text(text)) => Ok(Some(text)),
        Some(_) => Err(match name {
            "protected" => "it has a protected header that is no text",
            _ => "it has a member that should be a text and is none",
        }),
    }
}

fn take_bytes(members: &mut Object<'_>, name: &'static str) -> Result<Vec<u8>, &'static str> {
    match take_text(members, name)? {
        Some(text) => decode(&text),
        None => Err(match name {
            "encrypted_key" => {
                "it has a recipient without encrypted_key; only wrapped keys are supported"
            }
            "iv" => "it has no iv",
            "ciphertext" => "it has no ciphertext",
            _ => "it has no tag",
        }),
    }
}

fn take_object<'a>(
    members: &mut Object<'a>,
    name: &'static str,
) -> Result<Option<Object<'a>>, &'static str> {
    match members.take(name).map(|value| value.kind) {
        None => Ok(None),
        Some(Kind::Object(object)) => Ok(Some(object)),
        Some(_) => Err("it has a header that is no JSON object"),
    }
}
