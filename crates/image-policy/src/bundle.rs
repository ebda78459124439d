//! Sigstore bundles that a key signed: what cosign 3 writes.
//!
//! A bundle (version 0.3, JSON form of its protobuf) holds a DSSE envelope, which holds an in-toto
//! statement. Its subject is a digest without a name. Log entries and timestamps are not looked at:
//! it is the key that is trusted.

use foreign_text::json::{self, Duplicates, Limits, MAX_DEPTH, Object, Value};
use oci_image::digest::Digest;

use crate::base64;

/// The longest bundle, in bytes; entries of a log take some kilobytes.
pub const MAX_BUNDLE_BYTES: usize = 4 << 20;

/// The most values of its JSON, and of the statement's.
const MAX_BUNDLE_VALUES: usize = 1 << 16;

/// Both spellings of version 0.3.
const MEDIA_TYPES: [&str; 2] = [
    "application/vnd.dev.sigstore.bundle.v0.3+json",
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
];

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const STATEMENT: &str = "https://in-toto.io/Statement/v1";

/// What `cosign sign` says. Other predicates are attestations: that a scanner found a hole in an
/// image is signed by the same keys, and is no leave to run it.
const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

/// A bundle of which nothing is believed yet.
pub struct Bundle {
    payload: Vec<u8>,
    /// The signature over [`Bundle::message`].
    pub signature: Vec<u8>,
}

/// No foreign byte.
impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bundle({} bytes)", self.payload.len())
    }
}

impl Bundle {
    /// Reads a bundle; `None` if it is none that a key signed.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let root = object(bytes)?;
        let root = known(&root, &["mediaType", "verificationMaterial", "dsseEnvelope"])?;
        if !MEDIA_TYPES.contains(&member(root, "mediaType")?.text()?) {
            return None;
        }
        check_material(member(root, "verificationMaterial")?)?;
        let envelope = member(root, "dsseEnvelope")?.object()?;
        let envelope = known(envelope, &["payload", "payloadType", "signatures"])?;
        if member(envelope, "payloadType")?.text()? != PAYLOAD_TYPE {
            return None;
        }
        let [signature] = envelope.last("signatures")?.array()? else {
            return None;
        };
        let signature = known(signature.object()?, &["sig", "keyid"])?;
        if let Some(keyid) = signature.last("keyid")
            && !keyid.text()?.is_empty()
        {
            return None;
        }
        Some(Self {
            payload: base64::decode(envelope.last("payload")?.text()?)?,
            signature: base64::decode(signature.last("sig")?.text()?)?,
        })
    }

    /// Whether bytes are a bundle whose signer is a certificate, be it valid, expired or junk.
    pub fn is_by_certificate(bytes: &[u8]) -> bool {
        const CERTIFICATES: [&str; 2] = ["certificate", "x509CertificateChain"];
        let is_there = || {
            let root = object(bytes)?;
            let material = member(&root, "verificationMaterial")?.object()?;
            let mut kinds = CERTIFICATES.iter();
            Some(kinds.any(|kind| member(material, kind).is_some()))
        };
        is_there().unwrap_or(false)
    }

    /// What the signature is over: the pre-authentication encoding of DSSE.
    pub fn message(&self) -> Vec<u8> {
        let length = self.payload.len();
        let kind = PAYLOAD_TYPE.len();
        let mut message = format!("DSSEv1 {kind} {PAYLOAD_TYPE} {length} ").into_bytes();
        message.extend_from_slice(&self.payload);
        message
    }

    /// Whether the statement is a signature of this content; `None` if it is no signature's
    /// statement at all. To be asked once the key has verified.
    pub fn is_for(&self, digest: &Digest) -> Option<bool> {
        let root = object(&self.payload)?;
        let root = known(&root, &["_type", "subject", "predicateType", "predicate"])?;
        let is = |name, want: &str| Some(member(root, name)?.text()? == want);
        if !is("_type", STATEMENT)? || !is("predicateType", PREDICATE)? {
            return None;
        }
        let digest = digest.to_string();
        let (algorithm, hex) = digest.split_once(':')?;
        let mut is_for = false;
        for subject in root.last("subject")?.array()? {
            let subject = known(
                subject.object()?,
                &[
                    "name",
                    "uri",
                    "digest",
                    "content",
                    "downloadLocation",
                    "mediaType",
                    "annotations",
                ],
            )?;
            let found = subject.last("digest")?.object()?.last(algorithm);
            is_for |= found.and_then(Value::text) == Some(hex);
        }
        Some(is_for)
    }
}

/// The signer is a key, and no certificate. Which key it is, is only a hint and not looked at.
fn check_material(material: &Value<'_>) -> Option<()> {
    let material =
        known(material.object()?, &["publicKey", "tlogEntries", "timestampVerificationData"])?;
    let key = member(material, "publicKey")?.object()?;
    if let Some(hint) = known(key, &["hint"])?.last("hint") {
        hint.text()?;
    }
    if let Some(entries) = member(material, "tlogEntries") {
        let mut entries = entries.array()?.iter();
        entries.all(is_log_entry).then_some(())?;
    }
    if let Some(timestamps) = member(material, "timestampVerificationData") {
        timestamps.object()?;
    }
    Some(())
}

/// Whether a value has the members that every entry of a log has; their content is not believed. The
/// JSON of protobuf leaves out an index of 0.
fn is_log_entry(entry: &Value<'_>) -> bool {
    let Some(entry) = entry.object() else {
        return false;
    };
    let mut needed = ["logId", "kindVersion", "canonicalizedBody"].iter();
    needed.all(|name| member(entry, name).is_some())
}

fn object(bytes: &[u8]) -> Option<Object<'_>> {
    let limits = Limits { bytes: MAX_BUNDLE_BYTES, values: MAX_BUNDLE_VALUES, depth: MAX_DEPTH };
    json::read_object(bytes, limits, Duplicates::Refused).ok()
}

/// The object, if it has no member but these, and each in one spelling.
fn known<'v, 't>(object: &'v Object<'t>, names: &[&str]) -> Option<&'v Object<'t>> {
    let mut members = object.members();
    let are_known = members.all(|(name, _)| names.iter().any(|known| is_spelling_of(known, name)));
    let is_twice = |name: &&str| {
        let spellings = object.members().filter(|(found, _)| is_spelling_of(name, found));
        spellings.count() > 1
    };
    (are_known && !names.iter().any(is_twice)).then_some(object)
}

/// A member in either spelling.
fn member<'v, 't>(object: &'v Object<'t>, name: &str) -> Option<&'v Value<'t>> {
    let mut members = object.members();
    let (_, value) = members.find(|(found, _)| is_spelling_of(name, found))?;
    Some(value)
}

/// Whether a text is a name of the specification, or the same with `_` in the place of capitals,
/// which readers of protobuf's JSON take too: `dsseEnvelope`, `dsse_envelope`.
fn is_spelling_of(name: &str, text: &str) -> bool {
    let mut rest = text.chars();
    let mut is_there = |letter: char| {
        let mut as_snake = rest.clone();
        let lower = letter.to_ascii_lowercase();
        if letter.is_ascii_uppercase()
            && as_snake.next() == Some('_')
            && as_snake.next() == Some(lower)
        {
            rest = as_snake;
            return true;
        }
        rest.next() == Some(letter)
    };
    name.chars().all(&mut is_there) && rest.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_spellings_and_no_third() {
        for (text, is_one) in [
            ("payloadType", true),
            ("payload_type", true),
            ("payloadtype", false),
            ("payload_Type", false),
            ("PayloadType", false),
            ("payload_type_", false),
            ("payload", false),
        ] {
            assert_eq!(is_spelling_of("payloadType", text), is_one, "{text}");
        }
        let limits = Limits::of_bytes(1000);
        let read = |text| json::read_object(text, limits, Duplicates::Refused).unwrap();
        let object = read(br#"{"payload_type":1}"#);
        assert!(known(&object, &["payloadType"]).is_some());
        assert!(member(&object, "payloadType").is_some());
        let twice = read(br#"{"payload_type":1,"payloadType":1}"#);
        assert!(known(&twice, &["payloadType"]).is_none());
        assert!(known(&object, &["payload"]).is_none());
    }
}
