//! The guest's event log, which CoCo's attestation agent keeps: what is pulled, and by which
//! document of the host. Verifiers read it beside the TEE's evidence. Where the guest has no log
//! nothing is recorded; where the agent has one and fails, or had one and is gone, so does the
//! pull.
//!
//! The entry of a pull is the one that CoCo's data hub makes, byte for byte. That of the document
//! is this project's own; `docs/document.md` says what it is a hash of.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdh_client::{AttestationAgent, Extended, Fault};
use oci_image::digest::Digest;
use pull_route::Settings;
use tokio::sync::Mutex;

use crate::error::Error;

/// How long the agent may take for an entry: as long as CoCo's hub waits.
const LIMIT: Duration = Duration::from_secs(10);

/// The log, and what it has of the host's documents.
#[derive(Debug)]
pub struct EventLog {
    agent: AttestationAgent,
    /// The record of the document that the last entry is about. Held while an entry is made, so
    /// that a pull does not overtake the entry of its own document.
    document: Mutex<Option<String>>,
    /// Whether the log has an entry of this service. Who stops the agent must not stop the log.
    has_entry: AtomicBool,
}

/// An entry of the log: whose kind of event, what happened, and to what.
type Entry<'a> = (&'static str, &'static str, &'a str);

impl EventLog {
    /// The log of the agent at a socket; nothing is asked yet.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        let agent = AttestationAgent::new(socket, LIMIT);
        Self { agent, document: Mutex::default(), has_entry: AtomicBool::default() }
    }

    /// Says which document of the host counts from now on, unless the log says so already.
    ///
    /// # Errors
    ///
    /// [`Error::EventLog`].
    pub async fn document(&self, settings: &Settings) -> Result<(), Error> {
        let mut recorded = self.document.lock().await;
        let record = settings.record();
        if recorded.as_ref() == Some(&record) {
            return Ok(());
        }
        let content = format!(r#"{{"document":"{record}"}}"#);
        if self.extend(("kata-configdev", "LoadDocument", &content)).await? {
            *recorded = Some(record);
        }
        Ok(())
    }

    /// Says which image is pulled. `image` is the reference as the caller wrote it, which was
    /// parsed and so has no quotation mark, backslash or line feed.
    ///
    /// # Errors
    ///
    /// [`Error::EventLog`].
    pub async fn pull(&self, image: &str, manifest: &Digest) -> Result<(), Error> {
        // The space is the hub's.
        let content = format!(r#"{{"image":"{image}", "digest":"{manifest}"}}"#);
        let entry = ("github.com/confidential-containers", "PullImage", &*content);
        self.extend(entry).await.map(drop)
    }

    /// Makes an entry; gives whether there is a log, which has it then.
    async fn extend(&self, (domain, operation, content): Entry<'_>) -> Result<bool, Error> {
        let socket = self.agent.socket();
        let failed = |fault| Error::EventLog { socket: socket.to_owned(), fault };
        match self.agent.extend(domain, operation, content).await.map_err(failed)? {
            Extended::Recorded => {
                self.has_entry.store(true, Ordering::Relaxed);
                tracing::info!(operation, content, "recorded in the event log");
                Ok(true)
            }
            Extended::NoLog(why) if self.has_entry.load(Ordering::Relaxed) => {
                let reason = format!("{why}, and it has recorded before");
                Err(failed(Fault::Unreachable { reason }))
            }
            Extended::NoLog(why) => {
                tracing::info!(operation, agent = %socket.display(), why, "no event log");
                Ok(false)
            }
        }
    }
}
