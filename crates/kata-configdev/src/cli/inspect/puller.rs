//! The registry configuration in an image, without its secrets.

use std::io::Write;
use std::path::Path;

use registry_config::Document;
use serde::Serialize;

use crate::cli::CommandError;
use crate::cli::finding::{self, Finding};
use crate::digest;

/// What the document says, as `--json` prints it.
#[derive(Serialize)]
pub struct Report {
    bytes: usize,
    sha256: String,
    pub valid: bool,
    problems: Vec<Finding>,
    /// The document with every secret replaced; `None` where it is not valid, because then nobody
    /// knows which parts of it are secrets.
    content: Option<Document>,
}

impl Report {
    pub fn of(document: &[u8]) -> Self {
        let (content, problems) = match Document::parse(document) {
            Ok(checked) => (Some(checked.document), Vec::new()),
            Err(problems) => (None, finding::of_problems(&problems)),
        };
        Self {
            bytes: document.len(),
            sha256: digest::sha256(document),
            valid: content.is_some(),
            problems,
            content,
        }
    }

    pub fn print(&self, path: &Path, out: &mut impl Write) -> Result<(), CommandError> {
        writeln!(out, "document  {} bytes", self.bytes)?;
        writeln!(out, "sha256    {}", self.sha256)?;
        writeln!(out)?;
        if let Some(content) = &self.content {
            write!(out, "{}", content.redacted())?;
        } else {
            finding::print(out, path, "", &self.problems)?;
            writeln!(out, "the document is not valid and so not shown")?;
        }
        Ok(())
    }
}
