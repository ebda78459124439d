//! CoCo's attestation agent over ttrpc: it keeps the guest's event log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use imagepuller_api::message::{
    ExtendRuntimeMeasurementRequest, ExtendRuntimeMeasurementResponse, RuntimeMeasurementResult,
};
use protobuf::Message as _;
use ttrpc::Code;

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
        let method = Method {
            socket: &self.socket,
            service: "attestation_agent.AttestationAgentService",
            name: "ExtendRuntimeMeasurement",
            limit: self.limit,
            hint: |_| "the attestation agent's own log says why",
        };
        let payload = match method.call(&request).await {
            Err(Fault::Absent(_)) => return Ok(Extended::NoLog("nobody listens at its socket")),
            Err(Fault::Call { code, .. }) if is_unknown(code) => {
                return Ok(Extended::NoLog("it keeps no event log"));
            }
            payload => payload?,
        };
        let answer = ExtendRuntimeMeasurementResponse::parse_from_bytes(&payload)
            .map_err(|_| Fault::Answer { rule: "is no message of the attestation agent" })?;
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

/// Whether a status means that there is no such method or no such service: CoCo's programs answer
/// the latter with INVALID_ARGUMENT.
fn is_unknown(code: i32) -> bool {
    [Code::UNIMPLEMENTED, Code::INVALID_ARGUMENT].map(|code| code as i32).contains(&code)
}
