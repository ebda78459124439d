//! What is odd about the signatures behind a row, told by another reader than ours.

use ::base64::Engine;
use ::base64::alphabet::STANDARD as ALPHABET;
use ::base64::engine::DecodePaddingMode;
use ::base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use image_policy::Signature;
use oci_image::named::NamedReference;
use serde_json::Value;

use super::registry::{Place, Registry};

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

/// All that was signed for an image and for what is below it.
pub(crate) struct Evidence {
    signatures: Vec<Signature>,
}

impl Evidence {
    pub(crate) fn of(registry: &Registry, reference: &NamedReference) -> Self {
        let mut evidence = Self { signatures: Vec::new() };
        let Some(named) = registry.resolve(reference) else {
            return evidence;
        };
        let path = Registry::path(reference);
        let below = registry.instances(&named).into_iter().map(|(_, digest)| digest);
        for digest in below.chain([named.clone()]) {
            let places = [Place::Tag, Place::Bundles, Place::SimpleReferrers];
            // One at a time: a place that fails hides no other.
            for place in places {
                let found = registry.signatures(&path, &digest, &[place]);
                evidence.signatures.extend(found.into_iter().flat_map(|found| found.1));
            }
        }
        evidence
    }

    fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        self.signatures.iter().filter_map(|signature| match signature {
            Signature::Simple { payload, .. } => Some(payload.as_slice()),
            _ => None,
        })
    }

    /// A payload that serde_json does not read either: bytes that are no UTF-8, half a character,
    /// or more than 127 levels.
    pub(crate) fn has_odd_json(&self) -> bool {
        let mut payloads = self.payloads();
        payloads.any(|payload| serde_json::from_slice::<Value>(payload).is_err())
    }

    /// A payload of JSON that has not exactly the members of containers-signature(5).
    pub(crate) fn has_loose_payload(&self) -> bool {
        let mut payloads = self.payloads();
        payloads.any(|payload| {
            serde_json::from_slice::<Value>(payload).is_ok_and(|value| {
                let is_plain = value["critical"]["type"] == "cosign container image signature"
                    && has_members(&value, 2)
                    && has_members(&value["critical"], 3)
                    && has_members(&value["critical"]["image"], 1)
                    && has_members(&value["critical"]["identity"], 1)
                    && value["critical"]["identity"]["docker-reference"].is_string()
                    && matches!(value["optional"]["creator"], Value::Null | Value::String(_))
                    && value.get("optional").is_some();
                // What is there twice is written longer than what is read of it.
                let again = serde_json::to_vec(&value).unwrap();
                let colons = |text: &[u8]| text.iter().filter(|byte| **byte == b':').count();
                !is_plain || colons(&again) != colons(payload)
            })
        })
    }

    /// Whether one of them says this beside the name and the digest, in what the key signed.
    pub(crate) fn has_annotation(&self, name: &str, value: &str) -> bool {
        let payloads = self.payloads();
        let optional = payloads.filter_map(|payload| serde_json::from_slice::<Value>(payload).ok());
        let mut optional = optional.map(|payload| payload["optional"][name].clone());
        let statements = self.statements();
        let mut of_subjects =
            statements.map(|statement| statement["subject"][0]["annotations"][name].clone());
        optional.any(|found| found == value) || of_subjects.any(|found| found == value)
    }

    fn statements(&self) -> impl Iterator<Item = Value> {
        self.signatures.iter().filter_map(|signature| {
            let Signature::Bundle(bundle) = signature else {
                return None;
            };
            let bundle: Value = serde_json::from_slice(bundle).ok()?;
            let payload = bundle["dsseEnvelope"]["payload"].as_str()?;
            serde_json::from_slice(&STANDARD.decode(payload).ok()?).ok()
        })
    }

    pub(crate) fn has_other_predicate(&self) -> bool {
        self.statements().any(|one| one["predicateType"] != PREDICATE)
    }

    pub(crate) fn has_other_statement(&self) -> bool {
        self.statements().any(|one| one["_type"] != STATEMENT)
    }
}

fn has_members(value: &Value, count: usize) -> bool {
    value.as_object().is_some_and(|object| object.len() == count)
}

/// Base64 as Go reads it, or as readers of protobuf's JSON do, where ours does not.
pub(crate) fn is_loose_base64(text: &str) -> bool {
    read_loosely(text).is_some() && STANDARD.decode(text).is_err()
}

/// The same in the one spelling of its bytes.
pub(crate) fn strict_base64(text: &str) -> String {
    read_loosely(text).map_or_else(|| text.to_owned(), |bytes| STANDARD.encode(bytes))
}

fn read_loosely(text: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let loose = GeneralPurpose::new(&ALPHABET, config);
    let standard: String = text
        .chars()
        .filter(|letter| !matches!(letter, '\r' | '\n'))
        .map(|letter| match letter {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    loose.decode(standard).ok()
}

/// A signature with its texts in the one spelling of their bytes.
pub(crate) fn with_strict_base64(signature: Signature) -> Signature {
    with_texts(signature, strict_base64)
}

/// A signature by ECDSA in DER, where r and s stood side by side.
pub(crate) fn with_der(signature: Signature) -> Signature {
    with_texts(signature, |text| match STANDARD.decode(text) {
        Ok(bytes) if is_p1363(&bytes) => STANDARD.encode(der(&bytes)),
        _ => text.to_owned(),
    })
}

fn with_texts(signature: Signature, change: fn(&str) -> String) -> Signature {
    match signature {
        Signature::Simple { payload, signature } => {
            Signature::Simple { payload, signature: change(&signature) }
        }
        Signature::Bundle(bundle) => {
            let mut bundle: Value = serde_json::from_slice(&bundle).unwrap_or_default();
            for at in ["/dsseEnvelope/payload", "/dsseEnvelope/signatures/0/sig"] {
                if let Some(Value::String(text)) = bundle.pointer_mut(at) {
                    *text = change(text);
                }
            }
            Signature::Bundle(bundle.to_string().into_bytes())
        }
        other => other,
    }
}

fn is_p1363(bytes: &[u8]) -> bool {
    let is_der = bytes.first() == Some(&0x30)
        && bytes.get(1).copied().map(usize::from) == Some(bytes.len() - 2);
    matches!(bytes.len(), 64 | 96 | 132) && !is_der
}

/// r and s as a sequence of two integers.
fn der(bytes: &[u8]) -> Vec<u8> {
    let part = |kind: u8, content: Vec<u8>| {
        let length = u8::try_from(content.len()).unwrap();
        let head = match length {
            0..=127 => vec![kind, length],
            _ => vec![kind, 0x81, length],
        };
        [head, content].concat()
    };
    let integer = |bytes: &[u8]| {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let mut content = bytes[zeros.min(bytes.len() - 1)..].to_vec();
        if content[0] >= 0x80 {
            content.insert(0, 0);
        }
        part(2, content)
    };
    let (r, s) = bytes.split_at(bytes.len() / 2);
    part(0x30, [integer(r), integer(s)].concat())
}
