//! An attestation agent as far as it keeps an event log, over ttrpc on a Unix socket.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use crate::peer::{INTERNAL, Peer, Refused};
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
    log: Arc<Mutex<Vec<String>>>,
}

impl AttestationAgent {
    /// Starts an agent that listens on `socket`.
    ///
    /// # Errors
    ///
    /// Where the socket cannot be made.
    pub fn start(socket: &Path, event_log: EventLog) -> Result<Self> {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = log.clone();
        let services = &["attestation_agent.AttestationAgentService"];
        let peer = Peer::start(socket, services, move |method, payload| {
            (method == "ExtendRuntimeMeasurement").then(|| extend(payload, event_log, &kept))
        })?;
        Ok(Self { peer, log })
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
fn extend(
    payload: &[u8],
    event_log: EventLog,
    log: &Mutex<Vec<String>>,
) -> Result<Vec<u8>, Refused> {
    let fields = fields(payload).unwrap_or_default();
    let [domain, operation, content] =
        [1, 2, 3].map(|number| String::from_utf8(field(&fields, number)).unwrap_or_default());
    let is_whole = |text: &String| !text.is_empty() && !text.contains([' ', '\n']);
    let is_entry = [&domain, &operation].into_iter().all(is_whole)
        && fields.len() == 3
        && !content.is_empty()
        && !content.contains('\n');
    match event_log {
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
    }
}
