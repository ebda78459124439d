//! The initdata document in an image, in short.

use std::collections::BTreeMap;
use std::io::Write;

use serde::{Deserialize, Serialize};
use sha2::{Sha256, Sha384, Sha512};

use crate::cli::sha;
use crate::{Error, lines};

/// What the document says, as `--json` prints it.
///
/// Initdata is public, yet its values are whole files: only their lengths are shown.
#[derive(Serialize)]
pub struct Report {
    bytes: usize,
    /// Digests of the document, by any of which a platform may have been asked to vouch for it: see `algorithm`.
    sha256: String,
    sha384: String,
    sha512: String,
    pub valid: bool,
    problem: Option<String>,
    #[serde(flatten)]
    content: Option<Content>,
}

#[derive(Serialize)]
struct Content {
    version: String,
    algorithm: String,
    /// Keys of `[data]` and the lengths of their values in bytes.
    data: BTreeMap<String, usize>,
}

/// The document as the initdata specification has it; keys it does not name are left to the guest's own verdict.
#[derive(Deserialize)]
struct Document {
    version: String,
    algorithm: String,
    data: BTreeMap<String, String>,
}

impl Report {
    pub fn of(document: &[u8]) -> Self {
        let (content, problem) = match parse(document) {
            Ok(content) => (Some(content), None),
            Err(problem) => (None, Some(problem)),
        };
        Self {
            bytes: document.len(),
            sha256: sha::hex::<Sha256>(document),
            sha384: sha::hex::<Sha384>(document),
            sha512: sha::hex::<Sha512>(document),
            valid: content.is_some(),
            problem,
            content,
        }
    }

    pub fn print(&self, out: &mut impl Write) -> Result<(), Error> {
        writeln!(out, "document  {} bytes", self.bytes)?;
        writeln!(out, "sha256    {}", self.sha256)?;
        writeln!(out, "sha384    {}", self.sha384)?;
        writeln!(out, "sha512    {}", self.sha512)?;
        if let Some(content) = &self.content {
            // Text from the image must not be able to steer the terminal.
            let shown = lines::on_one_line;
            writeln!(out, "version   {}", shown(&content.version))?;
            writeln!(out, "algorithm {}", shown(&content.algorithm))?;
            for (key, bytes) in &content.data {
                writeln!(out, "data      {} ({bytes} bytes)", shown(key))?;
            }
        }
        if let Some(problem) = &self.problem {
            writeln!(
                out,
                "the document is not initdata: {}",
                lines::on_one_line(problem)
            )?;
        }
        Ok(())
    }
}

fn parse(document: &[u8]) -> Result<Content, String> {
    let text = str::from_utf8(document).map_err(|error| {
        let line = lines::line_of(document, error.valid_up_to());
        format!("line {line}: not UTF-8")
    })?;
    let Document {
        version,
        algorithm,
        data,
    } = toml::from_str(text).map_err(|error| {
        let line = lines::line_of(document, error.span().map_or(0, |span| span.start));
        format!("line {line}: {}", error.message())
    })?;
    Ok(Content {
        version,
        algorithm,
        data: data
            .into_iter()
            .map(|(key, value)| (key, value.len()))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_shown_and_values_are_not() {
        let report = Report::of(
            b"version = \"0.1.0\"\nalgorithm = \"sha384\"\n[data]\n\"aa.toml\" = \"12345\"\n\"\x41\\u001b\" = \"\"\n",
        );
        assert!(report.valid, "{:?}", report.problem);
        let mut shown = Vec::new();
        report.print(&mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("data      aa.toml (5 bytes)\n"), "{shown}");
        assert!(shown.contains("data      A\\u{1b} (0 bytes)\n"), "{shown}");
        assert!(!shown.contains("12345"));
    }

    #[test]
    fn what_is_no_initdata_is_told_with_its_line() {
        for (text, problem) in [
            (&b"some content"[..], "line 1: "),
            (
                b"version = \"0.1.0\"\nalgorithm = \"sha256\"\n",
                "missing field `data`",
            ),
            (b"version = 1\n", "line 1: invalid type"),
            (b"\n\xff", "line 2: not UTF-8"),
        ] {
            let report = Report::of(text);
            assert!(!report.valid);
            let found = report.problem.unwrap();
            assert!(found.contains(problem), "{found}");
        }
    }
}
