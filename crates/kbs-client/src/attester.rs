//! How a guest proves to a key broker what it is.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use puller_config::AttesterKind;
use serde_json::{Value, json};

use crate::attestation_agent::AttestationAgent;
use crate::error::Fault;

/// What IBM Secure Execution is called. Its evidence wants parts of the challenge, which the agent
/// takes from a broker itself; so the guest shows the agent's token there.
const SECURE_EXECUTION: &str = "se";

/// What vouches for bytes of the guest's choice.
#[derive(Debug)]
pub enum Attester {
    /// The `sample` environment, which proves nothing: for tests, and for brokers that are told to
    /// believe it. A broker's own policy does not.
    Sample,
    /// The attestation agent, for every environment that it knows.
    Agent(AttestationAgent),
}

impl Attester {
    /// What `kbs-attester` of `[resources]` names; each question to an agent may take as long as
    /// `limit`.
    pub fn new(kind: &AttesterKind, limit: Duration) -> Self {
        match kind {
            AttesterKind::Sample => Self::Sample,
            AttesterKind::Agent(socket) => Self::Agent(AttestationAgent::new(socket, limit)),
        }
    }

    /// What the protocol calls the environment, such as `tdx`; nothing where it gives no evidence
    /// for a challenge, but a token.
    pub async fn tee(&self) -> Result<Option<String>, Fault> {
        let Self::Agent(agent) = self else {
            return Ok(Some("sample".to_owned()));
        };
        let tee = agent.tee().await.map_err(|fault| of(agent, fault))?;
        Ok((tee != SECURE_EXECUTION).then_some(tee))
    }

    /// Evidence of further devices that holds `data`; empty where there are none.
    pub async fn devices(&self, data: &[u8]) -> Result<String, Fault> {
        match self {
            Self::Sample => Ok(String::new()),
            Self::Agent(agent) => {
                let devices = agent.additional_evidence(data).await;
                devices.map_err(|fault| of(agent, fault))
            }
        }
    }

    /// Evidence in the broker's format that holds `data`, a hash of 32 to 64 bytes.
    pub async fn evidence(&self, data: &[u8]) -> Result<Value, Fault> {
        match self {
            Self::Sample => Ok(json!({ "svn": "1", "report_data": STANDARD.encode(data) })),
            Self::Agent(agent) => agent.evidence(data).await.map_err(|fault| of(agent, fault)),
        }
    }

    /// The agent that has tokens too.
    pub fn agent(&self) -> Option<&AttestationAgent> {
        match self {
            Self::Sample => None,
            Self::Agent(agent) => Some(agent),
        }
    }
}

/// Why an agent gave no proof.
pub fn of(agent: &AttestationAgent, fault: Fault) -> Fault {
    Fault::Attester { socket: agent.socket().to_owned(), fault: Box::new(fault) }
}
