//! The initdata document in an image, in short.

mod document;

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use sha2::{Sha256, Sha384, Sha512};

use self::document::Document;
use crate::cli::finding;
use crate::{Error, digest, lines};

/// What the document says, as `--json` prints it.
///
/// Initdata is public, yet its values are whole files: only their lengths are shown.
#[derive(Serialize)]
pub struct Report {
    bytes: usize,
    /// Digests of the document, by any of which a platform may have been asked to vouch for it: see
    /// `algorithm`.
    sha256: String,
    sha384: String,
    sha512: String,
    pub valid: bool,
    #[serde(flatten)]
    content: Document,
}

impl Report {
    pub fn of(document: &[u8]) -> Self {
        let content = Document::read(document);
        Self {
            bytes: document.len(),
            sha256: digest::hex::<Sha256>(document),
            sha384: digest::hex::<Sha384>(document),
            sha512: digest::hex::<Sha512>(document),
            valid: content.problems.is_empty(),
            content,
        }
    }

    pub fn print(&self, path: &Path, out: &mut impl Write) -> Result<(), Error> {
        writeln!(out, "document  {} bytes", self.bytes)?;
        writeln!(out, "sha256    {}", self.sha256)?;
        writeln!(out, "sha384    {}", self.sha384)?;
        writeln!(out, "sha512    {}", self.sha512)?;
        // Text from the image must not be able to steer the terminal.
        let shown = lines::on_one_line;
        if let Some(version) = &self.content.version {
            writeln!(out, "version   {}", shown(version))?;
        }
        if let Some(algorithm) = &self.content.algorithm {
            writeln!(out, "algorithm {}", shown(algorithm))?;
        }
        for (key, bytes) in &self.content.data {
            writeln!(out, "data      {} ({bytes} bytes)", shown(key))?;
        }
        if !self.valid {
            writeln!(out)?;
            finding::print(out, path, "", &self.content.problems)?;
            writeln!(out, "the document is not valid, the guest will refuse it")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_shown_and_values_are_not() {
        let report = Report::of(
            b"version = \"0.1.0\"\nalgorithm = \"sha384\"\n[data]\n\"aa.toml\" \
            = \"12345\"\n\"\x41\\u001b\" = \"\"\n",
        );
        assert!(!report.valid, "a control character in a name");
        let mut shown = Vec::new();
        report.print(Path::new("image"), &mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("data      aa.toml (5 bytes)\n"), "{shown}");
        assert!(shown.contains("data      A\\u{1b} (0 bytes)\n"), "{shown}");
        assert!(shown.contains("image:5: data.\"A\\u{1b}\": "), "{shown}");
        assert!(!shown.contains("12345"));
    }
}
