//! Findings and faults while files are being read.

use crate::{Finding, Loss};

/// How many findings, and how many faults, are listed; hostile files have very many.
pub const MAX_FINDINGS: usize = 1000;

/// Collects what is to be said about files.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    pub(crate) faults: Vec<Finding>,
    pub(crate) unlisted: usize,
    /// How many CA files were read, which is limited.
    pub(crate) ca_files: usize,
    /// How many bytes of certificates were taken, which is limited.
    pub(crate) certificate_bytes: usize,
}

impl Report {
    /// Something worth knowing.
    pub(crate) fn note(&mut self, source: &str, key: &str, text: impl Into<String>) {
        self.find(source, key, Loss::Note, text.into());
    }

    /// Something that was left out or has another meaning now.
    pub(crate) fn lost(&mut self, source: &str, key: &str, text: impl Into<String>) {
        self.find(source, key, Loss::Lost, text.into());
    }

    /// Something that the files' own reader would fail at too, or that leaves their meaning open.
    pub(crate) fn fault(&mut self, source: &str, key: &str, text: impl Into<String>) {
        let fault = finding(source, key, Loss::Lost, text.into());
        push(&mut self.faults, fault, &mut self.unlisted);
    }

    fn find(&mut self, source: &str, key: &str, loss: Loss, text: String) {
        let found = finding(source, key, loss, text);
        push(&mut self.findings, found, &mut self.unlisted);
    }
}

fn finding(source: &str, key: &str, loss: Loss, text: String) -> Finding {
    Finding {
        source: source.to_owned(),
        key: key.to_owned(),
        loss,
        text,
    }
}

fn push(list: &mut Vec<Finding>, finding: Finding, unlisted: &mut usize) {
    if list.len() < MAX_FINDINGS {
        list.push(finding);
    } else {
        *unlisted += 1;
    }
}
