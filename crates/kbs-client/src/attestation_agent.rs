//! CoCo's attestation agent over ttrpc: it speaks for the TEE.

use std::path::{Path, PathBuf};
use std::time::Duration;

use imagepuller_api::message::{
    ExtendRuntimeMeasurementRequest, ExtendRuntimeMeasurementResponse,
    GetAdditionalEvidenceRequest, GetAdditionalEvidenceResponse, GetEvidenceRequest,
    GetEvidenceResponse, GetTeeTypeRequest, GetTeeTypeResponse, GetTokenRequest, GetTokenResponse,
    RuntimeMeasurementResult,
};
use protobuf::Message;
use serde_json::Value;
use ttrpc::Code;
use zeroize::Zeroizing;

use crate::call::Method;
use crate::error::Fault;

/// The agent that listens at a socket. A connection lasts for one call, so the agent may come later
/// and may start anew.
#[derive(Clone, Debug)]
pub struct AttestationAgent {
    socket: PathBuf,
    limit: Duration,
}

/// What became of an entry of the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// It is in the log.
    Recorded,
    /// The guest has no event log, and why.
    NoLog(&'static str),
}

impl AttestationAgent {
    /// Where CoCo's programs expect the agent.
    pub const SOCKET: &str =
        "/run/confidential-containers/attestation-agent/attestation-agent.sock";

    /// The agent at `socket`, whose answers may take as long as `limit`; nothing is asked yet.
    pub fn new(socket: impl Into<PathBuf>, limit: Duration) -> Self {
        Self { socket: socket.into(), limit }
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Calls a method of it.
    ///
    /// # Errors
    ///
    /// As those of [`Method::call`], and [`Fault::Answer`] for a payload that is none of an `A`.
    pub(crate) async fn call<A: Message>(
        &self,
        name: &'static str,
        request: &impl Message,
    ) -> Result<A, Fault> {
        let method = Method {
            socket: &self.socket,
            service: "attestation_agent.AttestationAgentService",
            name,
            limit: self.limit,
            hint,
        };
        let payload = method.call(request).await?;
        A::parse_from_bytes(&payload)
            .map_err(|_| Fault::Answer { rule: "is no message of the attestation agent" })
    }

    /// Adds an entry to the guest's event log, and so to what the TEE reports. The agent joins the
    /// three by spaces and refuses a line feed; domain and operation have no space.
    ///
    /// # Errors
    ///
    /// Where there is an agent, and it does not say that the entry is in the log.
    pub async fn extend(
        &self,
        domain: &str,
        operation: &str,
        content: &str,
    ) -> Result<Extended, Fault> {
        let request = ExtendRuntimeMeasurementRequest {
            Domain: domain.to_owned(),
            Operation: operation.to_owned(),
            Content: content.to_owned(),
            ..Default::default()
        };
        let answer = self.call("ExtendRuntimeMeasurement", &request).await;
        let answer: ExtendRuntimeMeasurementResponse = match answer {
            Err(Fault::Absent(_)) => return Ok(Extended::NoLog("nobody listens at its socket")),
            Err(Fault::Call { code, .. }) if is_unknown(code) => {
                return Ok(Extended::NoLog("it keeps no event log"));
            }
            answer => answer?,
        };
        match answer.Result.enum_value() {
            Ok(RuntimeMeasurementResult::OK) => Ok(Extended::Recorded),
            Ok(RuntimeMeasurementResult::NOT_SUPPORTED) => {
                Ok(Extended::NoLog("this TEE has no register for it"))
            }
            Ok(RuntimeMeasurementResult::NOT_ENABLED) => {
                Ok(Extended::NoLog("its settings leave the event log off"))
            }
            Err(_) => Err(Fault::Answer { rule: "does not say whether the entry is in the log" }),
        }
    }
}

impl AttestationAgent {
    /// Which TEE it speaks for, as the brokers' protocol calls it.
    ///
    /// # Errors
    ///
    /// Where there is no agent, or what it says is no name.
    pub async fn tee(&self) -> Result<String, Fault> {
        let request = GetTeeTypeRequest::default();
        let answer: GetTeeTypeResponse = self.call("GetTeeType", &request).await?;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if answer.tee.is_empty() || answer.tee.len() > MAX_TEE_BYTES {
            return Err(NO_TEE);
        }
        match answer.tee.bytes().all(is_letter) {
            true => Ok(answer.tee),
            false => Err(NO_TEE),
        }
    }

    /// Evidence of the TEE that holds `data`.
    ///
    /// # Errors
    ///
    /// Where there is no agent, or no evidence.
    pub async fn evidence(&self, data: &[u8]) -> Result<Value, Fault> {
        let request = GetEvidenceRequest { RuntimeData: data.to_owned(), ..Default::default() };
        let answer: GetEvidenceResponse = self.call("GetEvidence", &request).await?;
        serde_json::from_slice(&answer.Evidence)
            .map_err(|_| Fault::Answer { rule: "is no evidence, which is JSON" })
    }

    /// Evidence of further devices that holds `data`, as the agent writes it; empty where there
    /// are none.
    ///
    /// # Errors
    ///
    /// Where there is no agent, or no text.
    pub async fn additional_evidence(&self, data: &[u8]) -> Result<String, Fault> {
        let request =
            GetAdditionalEvidenceRequest { RuntimeData: data.to_owned(), ..Default::default() };
        let answer: GetAdditionalEvidenceResponse =
            self.call("GetAdditionalEvidence", &request).await?;
        String::from_utf8(answer.Evidence)
            .map_err(|_| Fault::Answer { rule: "is no evidence of devices, which is text" })
    }

    /// A token of the agent's own broker, with the private key that it is for: JSON.
    ///
    /// # Errors
    ///
    /// Where there is no agent, or it has no token.
    pub async fn token(&self) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let request = GetTokenRequest { TokenType: "kbs".to_owned(), ..Default::default() };
        let mut answer: GetTokenResponse = self.call("GetToken", &request).await?;
        Ok(Zeroizing::new(std::mem::take(&mut answer.Token)))
    }
}

/// The longest name of a TEE; real ones have at most eleven letters.
const MAX_TEE_BYTES: usize = 64;

const NO_TEE: Fault = Fault::Answer { rule: "is no name of a TEE" };

/// Whether a status means that there is no such method or no such service: CoCo's programs answer
/// the latter with INVALID_ARGUMENT.
fn is_unknown(code: i32) -> bool {
    [Code::UNIMPLEMENTED, Code::INVALID_ARGUMENT].map(|code| code as i32).contains(&code)
}

fn hint(code: i32) -> &'static str {
    if is_unknown(code) {
        "it does not know what it was asked; is it the attestation agent?"
    } else {
        "the attestation agent's own log says why"
    }
}
