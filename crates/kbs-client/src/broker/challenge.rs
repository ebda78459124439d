//! What the evidence has to hold.

use aws_lc_rs::digest::{self, Algorithm};
use foreign_text::json::{Duplicates, Kind, Limits, Value, read_object};
use serde::Serialize;

use crate::error::Fault;

use super::message::PublicKey;

/// The longest nonce; brokers send 44 letters, and structured ones a few hundred.
const MAX_NONCE_BYTES: usize = 16 << 10;

/// `Challenge`: what the evidence has to hold. Members that are not known are ignored.
#[derive(Debug)]
pub struct Challenge {
    nonce: String,
    hash: &'static Algorithm,
}

impl Challenge {
    /// Reads a challenge.
    ///
    /// # Errors
    ///
    /// [`Fault::Answer`] if it is none, or wants another hash.
    pub fn parse(text: &[u8]) -> Result<Self, Fault> {
        const NONE: Fault = Fault::Answer { rule: "is no challenge of a key broker" };
        let members = read_object(text, Limits::of_bytes(text.len()), Duplicates::Refused);
        let members = members.map_err(|_| NONE)?;
        let nonce = members.last("nonce").and_then(Value::text).ok_or(NONE)?;
        if nonce.is_empty() || nonce.len() > MAX_NONCE_BYTES {
            return Err(Fault::Answer {
                rule: "is a challenge without a nonce of a sensible length",
            });
        }
        // The member is an empty text where there is nothing to say.
        let selected = match members.last("extra-params").map(|extra| &extra.kind) {
            None | Some(Kind::Null) => None,
            Some(Kind::Text(text)) if text.is_empty() => None,
            Some(Kind::Object(extra)) => extra.last("selected-hash-algorithm"),
            Some(_) => return Err(NONE),
        };
        let selected = selected.map(|selected| selected.text().ok_or(NONE));
        let selected = selected.transpose()?.unwrap_or("sha384");
        let hash = match selected.to_ascii_lowercase().as_str() {
            "sha256" => &digest::SHA256,
            "sha384" => &digest::SHA384,
            "sha512" => &digest::SHA512,
            _ => {
                return Err(Fault::Answer {
                    rule: "is a challenge for another hash than SHA-256, SHA-384 or SHA-512",
                });
            }
        };
        Ok(Self { nonce: nonce.to_owned(), hash })
    }

    /// What makes the evidence new.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// What evidence of further devices has to hold: the hash over nonce and key.
    pub fn device_data(&self, key: &PublicKey) -> Vec<u8> {
        self.hash(&Bound { additional_evidence: None, nonce: &self.nonce, tee_pubkey: key })
    }

    /// What binds evidence to this challenge and to a key: the hash over both, and over the
    /// evidence of further devices, which is empty where there are none.
    pub fn report_data(&self, key: &PublicKey, devices: &str) -> Vec<u8> {
        self.hash(&Bound {
            additional_evidence: Some(devices),
            nonce: &self.nonce,
            tee_pubkey: key,
        })
    }

    fn hash(&self, bound: &Bound<'_>) -> Vec<u8> {
        // Strings always become JSON.
        let canonical = serde_json::to_vec(bound).unwrap_or_default();
        digest::digest(self.hash, &canonical).as_ref().to_vec()
    }
}

/// What evidence binds, as canonical JSON (RFC 8785): sorted members, no spaces, and of strings
/// only what has to be is escaped, all of which `serde_json` does for members in this order.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Bound<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_evidence: Option<&'a str>,
    nonce: &'a str,
    tee_pubkey: &'a PublicKey,
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use foreign_text::hex;
    use serde_json::json;

    /// Made with Python: `json.dumps(..., sort_keys=True, separators=(",", ":"),
    /// ensure_ascii=False)` and `hashlib`.
    #[test]
    fn evidence_is_bound_to_nonce_and_key() {
        let key = json!({
            "kty": "EC",
            "crv": "P-256",
            "alg": "ECDH-ES+A256KW",
            "x": "x-_1",
            "y": "y2",
        });
        let key: PublicKey = serde_json::from_value(key).unwrap();
        for (nonce, hash, expected) in [
            (
                "pD7sLpyk2fNVpKGmpRsGb0v0tZfNd2l7fdHhvGhjyxs=",
                "sha384",
                concat!(
                    "5d95b12b9e62782b4ffa72defc6c0fa7ca2760f11fc995d5968418898ca2e6ed",
                    "599c2a85ee6109e3a14fd04779de615d",
                ),
            ),
            (
                "pD7sLpyk2fNVpKGmpRsGb0v0tZfNd2l7fdHhvGhjyxs=",
                "sha256",
                "3f4d9ffa9268497bb295a5f1f2eeef21681bd9744a3ddb278794984d897b8dcd",
            ),
            (
                "pD7sLpyk2fNVpKGmpRsGb0v0tZfNd2l7fdHhvGhjyxs=",
                "sha512",
                concat!(
                    "41948084c5d0cb7e78726b65edc2956ccd36ba8af5e6193b2d1c81b849d062a3",
                    "f199c30d2393ec72a1b8ef0bb4fcb54b38f92261c02eefbd08aff2da9e456222",
                ),
            ),
            (
                "a\"b\\c\n\u{7}\u{1f}\u{7f}\u{20ac}/",
                "sha384",
                concat!(
                    "cb5f2e8039958f36eebd9b1ef5e53e4bd74949288dddf76a0f4986021801e16e",
                    "077ef7a84be09fc41a70b9fed3cab7a9",
                ),
            ),
        ] {
            let challenge = json!({
                "nonce": nonce,
                "extra-params": { "selected-hash-algorithm": hash },
            });
            let challenge = Challenge::parse(challenge.to_string().as_bytes()).unwrap();
            assert_eq!(hex::encode(&challenge.report_data(&key, "")), expected, "{nonce:?} {hash}");
        }
    }

    /// As the attestation agent and Trustee have it.
    #[test]
    fn evidence_is_bound_as_recorded() {
        for name in
            ["attest-ok", "client-attest-initdata", "client-attest-p256", "client-attest-p521"]
        {
            let sent = confidential_fixtures::Exchange::read(name).unwrap().request;
            let sent: serde_json::Value = serde_json::from_str(&sent.body).unwrap();
            let (evidence, runtime) = (&sent["tee-evidence"], &sent["runtime-data"]);
            let challenge = json!({"nonce": runtime["nonce"], "extra-params": ""});
            let challenge = Challenge::parse(challenge.to_string().as_bytes()).unwrap();
            let key: PublicKey = serde_json::from_value(runtime["tee-pubkey"].clone()).unwrap();
            let bound = STANDARD.encode(challenge.report_data(&key, ""));
            assert_eq!(evidence["primary_evidence"]["report_data"], bound, "{name}");
        }
    }

    #[test]
    fn challenges_choose_a_hash() {
        for (extra, expected) in [
            ("", Some(48)),
            (r#", "extra-params": """#, Some(48)),
            (r#", "extra-params": null"#, Some(48)),
            (r#", "extra-params": {}"#, Some(48)),
            (r#", "extra-params": {"more": [{}]}, "more": 1"#, Some(48)),
            (r#", "extra-params": {"selected-hash-algorithm": "sha256"}"#, Some(32)),
            (
                r#", "extra-params": {"a": 1, "selected-hash-algorithm": "SHA512", "b": {}}"#,
                Some(64),
            ),
            (r#", "extra-params": {"selected-hash-algorithm": "md5"}"#, None),
            (r#", "extra-params": {"selected-hash-algorithm": 384}"#, None),
            (r#", "extra-params": {"selected-hash-algorithm": null}"#, None),
            (
                concat!(
                    r#", "extra-params": {"selected-hash-algorithm": "sha256","#,
                    r#" "selected-hash-algorithm": "sha256"}"#,
                ),
                None,
            ),
            (r#", "extra-params": "sha256""#, None),
            (r#", "extra-params": []"#, None),
            (r#", "extra-params": 1"#, None),
            (r#", "extra-params": {}, "extra-params": {}"#, None),
            (r#", "nonce": "n""#, None),
        ] {
            let text = format!(r#"{{"nonce": "n"{extra}}}"#);
            let challenge = Challenge::parse(text.as_bytes());
            let length = challenge.ok().map(|challenge| challenge.hash.output_len());
            assert_eq!(length, expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_challenge_is_refused_without_being_quoted() {
        let long = format!(r#"{{"nonce": "{}"}}"#, "n".repeat(MAX_NONCE_BYTES + 1));
        for text in [
            "",
            "hunter2",
            "{}",
            r#"{"nonce": 1}"#,
            r#"{"nonce": ["hunter2"]}"#,
            r#"{"nonce": ""}"#,
            r#"{"nonce": "n"} hunter2"#,
            r#"["n"]  , "#,
            &long,
        ] {
            let fault = Challenge::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(fault.contains("challenge") && !fault.contains("hunter2"), "{fault}");
        }
    }
}
