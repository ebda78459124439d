//! The initdata document in an image, in short.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use foreign_text::{hex, shown};
use initdata::{Algorithm, Reading};
use serde::Serialize;

use crate::cli::CommandError;
use crate::cli::finding::{self, Finding};
use crate::cli::policy::measured;

/// What the document says, as `--json` prints it.
///
/// Initdata is public, yet its values are whole files: only their lengths are shown.
#[derive(Serialize)]
pub struct Report {
    bytes: usize,
    /// Digests of the document. The platform's evidence holds the one that `algorithm` names.
    sha256: String,
    sha384: String,
    sha512: String,
    /// Whether the guest accepts the document, where its evidence announces it.
    pub valid: bool,
    /// Why not; the first one is the guest's reason.
    problems: Vec<Finding>,
    version: Option<String>,
    algorithm: Option<String>,
    /// Why every pull of the guest fails, by the image policy in it; the guest accepts the document.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policy_problems: Vec<Finding>,
    /// Keys of `[data]` and the lengths of their values in bytes.
    data: BTreeMap<String, usize>,
}

impl Report {
    pub fn of(document: &[u8]) -> Self {
        let reading = Reading::of(document);
        let digest = |algorithm: Algorithm| hex::encode(&algorithm.digest(document));
        Self {
            bytes: document.len(),
            sha256: digest(Algorithm::Sha256),
            sha384: digest(Algorithm::Sha384),
            sha512: digest(Algorithm::Sha512),
            valid: reading.document.is_some(),
            problems: reading.faults.iter().map(Finding::from).collect(),
            policy_problems: match &reading.document {
                Some(document) => measured::faults_in(&document.data),
                None => Vec::new(),
            },
            version: reading.version,
            algorithm: reading.algorithm,
            data: reading.lengths,
        }
    }

    /// Whether the guest accepts the document, and can read its image policy.
    pub fn is_good(&self) -> bool {
        self.valid && self.policy_problems.is_empty()
    }

    pub fn print(&self, path: &Path, out: &mut impl Write) -> Result<(), CommandError> {
        writeln!(out, "document  {} bytes", self.bytes)?;
        writeln!(out, "sha256    {}", self.sha256)?;
        writeln!(out, "sha384    {}", self.sha384)?;
        writeln!(out, "sha512    {}", self.sha512)?;
        // Text from the image must not be able to steer the terminal.
        if let Some(version) = &self.version {
            writeln!(out, "version   {}", shown(version))?;
        }
        if let Some(algorithm) = &self.algorithm {
            writeln!(out, "algorithm {}", shown(algorithm))?;
        }
        for (key, bytes) in &self.data {
            writeln!(out, "data      {} ({bytes} bytes)", shown(key))?;
        }
        if !self.valid {
            writeln!(out)?;
            finding::print(out, path, "", &self.problems)?;
            writeln!(out, "the document is not valid, the guest will refuse it")?;
        }
        if !self.policy_problems.is_empty() {
            writeln!(out)?;
            finding::print(out, path, "", &self.policy_problems)?;
            writeln!(out, "its image policy is not valid, every pull of the guest will fail")?;
        }
        Ok(())
    }
}

impl From<&initdata::Refusal> for Finding {
    fn from(fault: &initdata::Refusal) -> Self {
        Self { line: fault.line, key: fault.key.clone(), message: fault.rule.clone() }
    }
}
