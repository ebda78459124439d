//! What is odd about the signatures behind a row, told by another reader than ours.

use ::base64::Engine;
use ::base64::alphabet::STANDARD as ALPHABET;
use ::base64::engine::DecodePaddingMode;
use ::base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use image_policy::Signature;
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use serde_json::Value;

use crate::registry::{Place, Registry};

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

/// All that was signed for an image and for what is below it.
pub(crate) struct Evidence {
    pub(crate) signatures: Vec<Signature>,
    /// The manifests under cosign's tag.
    manifests: Vec<Value>,
    lengths: Vec<(Digest, usize)>,
}

impl Evidence {
    pub(crate) fn of(registry: &Registry, reference: &NamedReference) -> Self {
        let mut evidence = Self {
            signatures: Vec::new(),
            manifests: Vec::new(),
            lengths: Vec::new(),
        };
        let Some(named) = registry.resolve(reference) else {
            return evidence;
        };
        let path = Registry::path(reference);
        let below = registry
            .instances(&named)
            .into_iter()
            .map(|(_, digest)| digest);
        for digest in below.chain([named.clone()]) {
            let places = [Place::Tag, Place::Bundles, Place::SimpleReferrers];
            // One at a time: a place that fails hides no other.
            for place in places {
                let found = registry.signatures(&path, &digest, &[place]);
                evidence
                    .signatures
                    .extend(found.into_iter().flat_map(|found| found.1));
            }
            let Some(manifest) = registry.signature_manifest(&path, &digest) else {
                continue;
            };
            for layer in manifest["layers"].as_array().into_iter().flatten() {
                let digest = layer["digest"]
                    .as_str()
                    .and_then(|text| Digest::parse(text).ok());
                let known = digest.and_then(|digest| Some((registry.length(&digest)?, digest)));
                let known = known.map(|(length, digest)| (digest, length));
                evidence.lengths.extend(known);
            }
            evidence.manifests.push(manifest);
        }
        evidence
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        self.signatures
            .iter()
            .flat_map(|signature| match signature {
                Signature::Simple { signature, .. } => vec![signature.clone()],
                Signature::Bundle(bundle) => {
                    let bundle: Value = serde_json::from_slice(bundle).unwrap_or_default();
                    let envelope = &bundle["dsseEnvelope"];
                    let texts = [&envelope["payload"], &envelope["signatures"][0]["sig"]];
                    texts
                        .into_iter()
                        .filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect()
                }
                _ => Vec::new(),
            })
    }

    /// Base64 that is read by others and has another spelling than ours.
    pub(crate) fn has_loose_base64(&self) -> bool {
        self.texts().any(|text| is_loose_base64(&text))
    }

    /// ECDSA as r and s side by side.
    pub(crate) fn has_p1363(&self) -> bool {
        let mut decoded = self.texts().filter_map(|text| STANDARD.decode(text).ok());
        decoded.any(|bytes| {
            let is_der = bytes.first() == Some(&0x30)
                && bytes.get(1).copied().map(usize::from) == Some(bytes.len() - 2);
            matches!(bytes.len(), 64 | 96 | 132) && !is_der
        })
    }

    fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        self.signatures
            .iter()
            .filter_map(|signature| match signature {
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
        self.statements()
            .any(|one| one["predicateType"] != PREDICATE)
    }

    pub(crate) fn has_other_statement(&self) -> bool {
        self.statements().any(|one| one["_type"] != STATEMENT)
    }

    fn layers(&self) -> impl Iterator<Item = &Value> {
        let layers = self.manifests.iter().map(|manifest| &manifest["layers"]);
        layers.filter_map(Value::as_array).flatten()
    }

    /// A descriptor that gives another size than the content has.
    pub(crate) fn has_wrong_size(&self) -> bool {
        self.layers().any(|layer| {
            self.lengths.iter().any(|(digest, length)| {
                layer["digest"] == *digest.to_string() && layer["size"] != *length
            })
        })
    }

    /// A certificate or a log entry beside a signature.
    pub(crate) fn has_more_annotations(&self) -> bool {
        self.layers().any(|layer| {
            let annotations = layer["annotations"].as_object();
            annotations.is_some_and(|found| found.keys().any(|name| name.contains("sigstore")))
        })
    }

    /// Layers or a manifest of another type than those of signatures.
    pub(crate) fn has_other_types(&self) -> bool {
        self.layers()
            .any(|layer| layer["mediaType"] != SIMPLE_SIGNING)
            || self
                .manifests
                .iter()
                .any(|manifest| manifest["mediaType"] != OCI_MANIFEST)
    }
}

fn has_members(value: &Value, count: usize) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.len() == count)
}

/// Base64 as Go reads it, or as readers of protobuf's JSON do, where ours does not.
pub(crate) fn is_loose_base64(text: &str) -> bool {
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
    loose.decode(standard).is_ok() && STANDARD.decode(text).is_err()
}
