//! What an initdata document says, and everything that the guest will hold against it.
//!
//! Spec: `docs/format.md`, "Initdata". The guest reads the document with code of its own, which
//! stops at the first fault.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::cli::finding::Finding;
use crate::lines;

/// The version of the specification that the guest understands.
const VERSION: &str = "0.1.0";

/// The algorithms in Kata's spelling and in the specification's.
const ALGORITHMS: [&str; 6] = [
    "sha256", "sha384", "sha512", "sha-256", "sha-384", "sha-512",
];

/// The most entries of `[data]` that the guest accepts. Not part of the format.
const MAX_ENTRIES: usize = 1024;

/// The longest name of a file on Linux.
const MAX_NAME_BYTES: usize = 255;

/// As much of a document as could be read. It is valid where there are no problems.
#[derive(Default, Serialize)]
pub struct Document {
    pub problems: Vec<Finding>,
    pub version: Option<String>,
    pub algorithm: Option<String>,
    /// Keys of `[data]` and the lengths of their values in bytes.
    pub data: BTreeMap<String, usize>,
}

impl Document {
    /// Reads `bytes`, which the image's decoder has bounded. Top-level keys without a meaning are
    /// tolerated, as by the guest.
    pub fn read(bytes: &[u8]) -> Self {
        let mut document = Self::default();
        match str::from_utf8(bytes) {
            Ok(text) => document.take(text),
            Err(error) => {
                let line = lines::line_of(bytes, error.valid_up_to());
                document.problem(Some(line), "", "not UTF-8".into());
            }
        }
        document.problems.sort_by_key(|problem| problem.line);
        document
    }

    fn take(&mut self, text: &str) {
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let line = error.span().and_then(|span| line_of(text, span));
                return self.problem(line, "", format!("not TOML: {}", error.message()));
            }
        };
        let expected = format!("{VERSION:?}");
        self.version = self.string(text, &table, "version", &expected, &[VERSION]);
        let expected = "sha256, sha384 or sha512";
        self.algorithm = self.string(text, &table, "algorithm", expected, &ALGORITHMS);
        match table.get("data") {
            None => self.problem(None, "data", "missing".into()),
            Some(value) => match value.get_ref() {
                DeValue::Table(data) => self.take_data(text, data),
                _ => self.wrong_type(text, "data", "a table", value),
            },
        }
    }

    /// The string `key`, which must be one of `accepted`; `expected` says that in words.
    fn string(
        &mut self,
        text: &str,
        table: &DeTable<'_>,
        key: &str,
        expected: &str,
        accepted: &[&str],
    ) -> Option<String> {
        let Some(value) = table.get(key) else {
            self.problem(None, key, "missing".into());
            return None;
        };
        let Some(found) = value.get_ref().as_str() else {
            self.wrong_type(text, key, "a string", value);
            return None;
        };
        if !accepted.contains(&found) {
            let message = format!("expected {expected}, found {:?}", cut(found));
            self.problem(line_of(text, value.span()), key, message);
        }
        Some(found.to_owned())
    }

    fn take_data(&mut self, text: &str, data: &DeTable<'_>) {
        // The limit also bounds the number of problems.
        let judged = data.len() <= MAX_ENTRIES;
        if !judged {
            let message = format!("{} entries, at most {MAX_ENTRIES} are accepted", data.len());
            self.problem(None, "data", message);
        }
        for (name, value) in data {
            let key = format!("data.{:?}", cut(name.get_ref()));
            if let Some(fault) = name_fault(name.get_ref()).filter(|_| judged) {
                let message = format!("not a plain file name: {fault}");
                self.problem(line_of(text, name.span()), &key, message);
            }
            match value.get_ref() {
                DeValue::String(content) => {
                    self.data.insert(name.get_ref().to_string(), content.len());
                }
                _ if !judged => {}
                // `policy.rego = ` without quotes is a table `policy` in TOML, the commonest
                // mistake.
                DeValue::Table(_) => {
                    let expected = "a string (a name with a dot needs quotes)";
                    self.wrong_type(text, &key, expected, value);
                }
                _ => self.wrong_type(text, &key, "a string", value),
            }
        }
    }

    fn wrong_type(&mut self, text: &str, key: &str, expected: &str, value: &Spanned<DeValue<'_>>) {
        let found = value.get_ref().type_str();
        let message = format!("expected {expected}, found {found}");
        self.problem(line_of(text, value.span()), key, message);
    }

    fn problem(&mut self, line: Option<usize>, key: &str, message: String) {
        self.problems.push(Finding {
            line,
            key: key.into(),
            message,
        });
    }
}

/// Why the guest will not make a file of this name.
fn name_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > MAX_NAME_BYTES {
        Some("it has more than 255 bytes")
    } else if name == "." || name == ".." {
        Some("it is a directory")
    } else if name.contains('/') {
        Some("it has a slash")
    } else if name.chars().any(char::is_control) {
        Some("it has a control character")
    } else {
        None
    }
}

fn line_of(text: &str, span: Range<usize>) -> Option<usize> {
    Some(lines::line_of(text.as_bytes(), span.start))
}

/// The beginning of `text`, enough to recognise it by.
fn cut(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 64;
    let mut short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n";

    /// The problems as a terminal shows them.
    fn problems(bytes: &[u8]) -> String {
        let mut shown = Vec::new();
        let document = Document::read(bytes);
        crate::cli::finding::print(&mut shown, "image".as_ref(), "", &document.problems).unwrap();
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn what_the_guest_accepts_is_valid() {
        for algorithm in ALGORITHMS {
            let text = format!(
                "version = \"0.1.0\"\nalgorithm = {algorithm:?}\nmore = 1\n[data]\n\"policy.rego\" \
                = \"12345\"\n\"{}\" = \"\"\n",
                "n".repeat(MAX_NAME_BYTES)
            );
            assert_eq!(problems(text.as_bytes()), "");
            assert_eq!(Document::read(text.as_bytes()).data["policy.rego"], 5);
        }
        assert_eq!(problems(HEAD.as_bytes()), "", "no entries");
    }

    #[test]
    fn every_problem_is_told() {
        let text = "algorithm = \"md5\"\nversion = \"9.9\"\n[data]\n\"../../etc/x\" = \"\"\nok \
        = \"\"\n\"..\" = 7\n";
        assert_eq!(
            problems(text.as_bytes()),
            "\
image:1: algorithm: expected sha256, sha384 or sha512, found \"md5\"
image:2: version: expected \"0.1.0\", found \"9.9\"
image:4: data.\"../../etc/x\": not a plain file name: it has a slash
image:6: data.\"..\": not a plain file name: it is a directory
image:6: data.\"..\": expected a string, found integer
"
        );
        let document = Document::read(text.as_bytes());
        assert_eq!(document.version.as_deref(), Some("9.9"));
        assert_eq!(
            document.data.keys().collect::<Vec<_>>(),
            ["../../etc/x", "ok"]
        );
    }

    #[test]
    fn what_is_no_initdata() {
        for (bytes, expected) in [
            (
                &b""[..],
                "image: version: missing\nimage: algorithm: missing\nimage: data: missing\n",
            ),
            (b"some content", "image:1: not TOML: "),
            (b"\n\xff", "image:2: not UTF-8"),
            (
                b"version = 0.1\n",
                "image:1: version: expected a string, found float",
            ),
            (
                b"\nversion = \"0.1.0 \"\n",
                "image:2: version: expected \"0.1.0\", found \"0.1.0 \"",
            ),
            (
                b"\n\nalgorithm = [\"sha256\"]\n",
                "image:3: algorithm: expected a string, found array",
            ),
            (
                b"algorithm = \"SHA256\"\n",
                "image:1: algorithm: expected sha256",
            ),
            (b"data = 1\n", "image:1: data: expected a table"),
            (
                b"[data]\npolicy.rego = \"x\"\n",
                "data.\"policy\": expected a string (a name with a dot needs quotes), found table",
            ),
        ] {
            let found = problems(bytes);
            assert!(found.contains(expected), "{expected} in {found}");
        }
    }

    #[test]
    fn names_that_cannot_be_files() {
        let long = "n".repeat(MAX_NAME_BYTES + 1);
        for (name, fault) in [
            ("", "it is empty"),
            (".", "it is a directory"),
            ("a/b", "it has a slash"),
            ("/", "it has a slash"),
            ("a\\u0000", "it has a control character"),
            ("\\u001b[2J", "it has a control character"),
            (long.as_str(), "it has more than 255 bytes"),
        ] {
            let found = problems(format!("{HEAD}\"{name}\" = \"\"\n").as_bytes());
            assert!(
                found.starts_with("image:4: data.\"") && found.contains(fault),
                "{found}"
            );
            assert!(found.len() < 200, "{found}");
        }
    }

    #[test]
    fn too_many_entries_are_one_problem() {
        let entries = |count| {
            (0..count).fold(HEAD.to_owned(), |text, number| {
                text + &format!("\"/{number}\" = 1\n")
            })
        };
        let most = Document::read(entries(MAX_ENTRIES).as_bytes());
        assert_eq!(most.problems.len(), 2 * MAX_ENTRIES);
        assert_eq!(
            problems(entries(MAX_ENTRIES + 1).as_bytes()),
            "image: data: 1025 entries, at most 1024 are accepted\n"
        );
    }
}
