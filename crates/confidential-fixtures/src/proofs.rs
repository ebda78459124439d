//! What the attestation agent's stand-in gives as a proof: evidence of the `sample` environment,
//! and a token. It takes what the recorded client sends, and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::peer::{Answer, INTERNAL};
use vm_harness::ttrpc::{fields, put};

/// The most bytes that evidence can hold.
const MAX_DATA_BYTES: usize = 64;

/// The proofs of one agent.
#[derive(Clone, Debug)]
pub struct Proofs {
    /// Its TEE.
    pub tee: &'static str,
    /// Whether there is a further device.
    pub has_device: bool,
    /// What it gives for a token; without one it has no broker.
    pub token: Option<String>,
}

impl Default for Proofs {
    fn default() -> Self {
        Self { tee: "sample", has_device: false, token: None }
    }
}

impl Proofs {
    /// Answers a method.
    pub(crate) fn answer(&self, method: &str, payload: &[u8]) -> Answer {
        let request = fields(payload).unwrap_or_default();
        let refused = |what| {
            let text = format!("[ERROR:attestation-agent] {what} failed");
            Some(Err((INTERNAL, text)))
        };
        let content = match (method, &request[..]) {
            ("GetTeeType", []) => self.tee.to_owned(),
            ("GetAdditionalTees", []) => return Some(Ok(Vec::new())),
            ("GetEvidence", [(1, data)]) if data.len() <= MAX_DATA_BYTES => {
                json!({"report_data": STANDARD.encode(data), "svn": "1"}).to_string()
            }
            ("GetAdditionalEvidence", [(1, data)]) if data.len() <= MAX_DATA_BYTES => {
                if !self.has_device {
                    return Some(Ok(Vec::new()));
                }
                json!({"sampledevice": {"report_data": STANDARD.encode(data)}}).to_string()
            }
            ("GetToken", [(1, kind)]) if kind == b"kbs" => match &self.token {
                Some(token) => token.clone(),
                None => return refused("AA-KBC get token"),
            },
            ("GetToken", _) => return refused("AA-KBC get token"),
            ("GetTeeType" | "GetEvidence" | "GetAdditionalEvidence", _) => return refused(method),
            _ => return None,
        };
        let mut message = Vec::new();
        put(&mut message, 1, content.as_bytes());
        Some(Ok(message))
    }
}
