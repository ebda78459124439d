//! An attestation agent as far as it keeps an event log and gives proofs, over ttrpc on a Unix
//! socket.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use crate::Proofs;
use crate::peer::{Answer, INTERNAL, Peer};
use vm_harness::ttrpc::{field, fields};

/// What an agent makes of entries for its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLog {
    /// It keeps them.
    Kept,
    /// Its TEE has no register for them.
    Unsupported,
    /// Its settings leave the log off.
    Off,
    /// It fails.
    Broken,
}

/// A running agent; stopped when dropped.
#[derive(Debug)]
pub struct AttestationAgent {
    peer: Peer,
    asked: Arc<Mutex<Vec<String>>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl AttestationAgent {
    /// Starts an agent that listens on `socket`.
    ///
    /// # Errors
    ///
    /// Where the socket cannot be made.
    pub fn start(socket: &Path, event_log: EventLog) -> Result<Self> {
        Self::proving(socket, event_log, Proofs::default())
    }

    /// The same, of an agent with these proofs.
    ///
    /// # Errors
    ///
    /// As those of [`AttestationAgent::start`].
    pub fn proving(socket: &Path, event_log: EventLog, proofs: Proofs) -> Result<Self> {
        let [log, asked]: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
        let (kept, record) = (log.clone(), asked.clone());
        let services = &["attestation_agent.AttestationAgentService"];
        let peer = Peer::start(socket, services, move |method, payload| {
            record.lock().unwrap_or_else(PoisonError::into_inner).push(method.to_owned());
            match method {
                "ExtendRuntimeMeasurement" => extend(payload, event_log, &kept),
                _ => proofs.answer(method, payload),
            }
        })?;
        Ok(Self { peer, asked, log })
    }

    /// How a document names it as an attester.
    #[must_use]
    pub fn attester(&self) -> String {
        format!("aa=unix:{}", self.socket().display())
    }

    /// The methods that were called, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.peer.socket()
    }

    /// The entries of its log, each in the form in which the agent hashes it.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Takes an entry of exactly three texts, from which a verifier can tell them apart again.
fn extend(payload: &[u8], event_log: EventLog, log: &Mutex<Vec<String>>) -> Answer {
    let fields = fields(payload).unwrap_or_default();
    let [domain, operation, content] =
        [1, 2, 3].map(|number| String::from_utf8(field(&fields, number)).unwrap_or_default());
    let is_whole = |text: &String| !text.is_empty() && !text.contains([' ', '\n']);
    let is_entry = [&domain, &operation].into_iter().all(is_whole)
        && fields.len() == 3
        && !content.is_empty()
        && !content.contains('\n');
    Some(match event_log {
        EventLog::Kept if is_entry => {
            let entry = format!("{domain} {operation} {content}");
            log.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
            // Field 1 is 0, and so left out.
            Ok(Vec::new())
        }
        EventLog::Unsupported => Ok(vec![8, 1]),
        EventLog::Off => Ok(vec![8, 2]),
        EventLog::Kept | EventLog::Broken => {
            let text = "[ERROR:attestation-agent] AA extend runtime measurement failed";
            Err((INTERNAL, text.to_owned()))
        }
    })
}
