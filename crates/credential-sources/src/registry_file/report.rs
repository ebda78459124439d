//! Findings and faults while files are being read.

use crate::{Finding, Loss};

/// How many findings, and how many faults, are listed; hostile files have very many.
pub const MAX_FINDINGS: usize = 1000;

/// What there is to say about files.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was not taken over as it stood, at most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// What makes the files unusable, at most [`MAX_FINDINGS`]. No document should be made where
    /// there are any.
    pub faults: Vec<Finding>,
    /// How many findings and faults are not listed.
    pub unlisted: usize,
}

impl Report {
    /// Something worth knowing.
    pub(crate) fn note(&mut self, source: &str, key: &str, text: impl Into<String>) {
        let finding = Finding::new(source, key, Loss::Note, text);
        push(&mut self.findings, finding, &mut self.unlisted);
    }

    /// Something that was left out or has another meaning now.
    pub(crate) fn lost(&mut self, source: &str, key: &str, text: impl Into<String>) {
        let finding = Finding::new(source, key, Loss::Lost, text);
        push(&mut self.findings, finding, &mut self.unlisted);
    }

    /// Something that leaves the meaning of the files open, and not only that of one entry.
    pub(crate) fn fault(&mut self, source: &str, key: &str, text: impl Into<String>) {
        let fault = Finding::new(source, key, Loss::Lost, text);
        push(&mut self.faults, fault, &mut self.unlisted);
    }
}

fn push(list: &mut Vec<Finding>, finding: Finding, unlisted: &mut usize) {
    if list.len() < MAX_FINDINGS {
        list.push(finding);
    } else {
        *unlisted += 1;
    }
}
