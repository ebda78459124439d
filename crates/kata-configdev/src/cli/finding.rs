//! Problems and warnings as the commands show them.

use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use credential_sources::{client_identity, decryption_secret};
use foreign_text::one_line;
use oci_image::pins::Pins;
use registry_config::{Checked, DecryptionKey, Document, MAX_DOCUMENT_BYTES, Problems, Warning};
use serde::Serialize;

use crate::choice::DocumentText;
use crate::cli::import::outcome;
use crate::cli::policy::measured;
use crate::cli::{CommandError, foreign_kind, root_dates};
use crate::host_file::{read_any, read_named};

/// One thing to say about a document. Never holds a value of it.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The line, from 1; `None` where the file as a whole is meant.
    pub line: Option<usize>,
    /// The dotted key, empty where none is concerned.
    pub key: String,
    /// What is wrong, or what happens.
    pub message: String,
}

/// A document that was read from the file system, not yet parsed.
#[derive(Debug)]
pub struct Input {
    pub text: DocumentText,
    /// `None` of what is nobody's file.
    metadata: Option<Metadata>,
}

impl Input {
    /// Reads the document `path`, whatever kind of file it is, or standard input for "-": the
    /// person at the terminal chose it, and a pipe keeps a decrypted document off the disk.
    pub fn read(path: &Path) -> Result<Self, CommandError> {
        let (text, metadata) = if path == Path::new("-") {
            (read_named(path, MAX_DOCUMENT_BYTES)?, None)
        } else {
            let (text, metadata) = read_any(path, MAX_DOCUMENT_BYTES)?;
            (text, Some(metadata))
        };
        let text = text.into();
        Ok(Self { text, metadata })
    }

    /// A document that somebody else has read, and the `metadata` of its file, if it is in one.
    pub fn of(text: DocumentText, metadata: Option<Metadata>) -> Self {
        Self { text, metadata }
    }

    /// What it was read from, where that is a file that can be read again.
    fn file(&self) -> Option<&Metadata> {
        self.metadata.as_ref().filter(|file| file.is_file())
    }

    /// The mode of that file.
    pub fn mode(&self) -> Option<u32> {
        self.file().map(|file| file.permissions().mode() & 0o7777)
    }

    /// Whether it is a file that can be read again.
    pub fn is_file(&self) -> bool {
        self.file().is_some()
    }

    /// Whether `other` describes the very file that was read.
    pub fn is(&self, other: &Metadata) -> bool {
        let own = self.metadata.as_ref();
        own.is_some_and(|own| (own.dev(), own.ino()) == (other.dev(), other.ino()))
    }

    /// A warning where there is nothing in it, as where a template had no values.
    pub fn says_nothing(&self) -> Option<Finding> {
        let text = str::from_utf8(&self.text).ok()?;
        outcome::says_nothing(text).then(|| Finding {
            line: None,
            key: String::new(),
            message: "says nothing: guests pull as without a document, anonymously".into(),
        })
    }

    /// What the node would hold against the file, and who else can read the secrets in it.
    fn warnings(&self, document: &Document) -> Vec<Finding> {
        let mut warnings = Vec::new();
        let Some(file) = self.file() else {
            return warnings;
        };
        let mut warn = |message: String| {
            warnings.push(Finding { line: None, key: String::new(), message });
        };
        let mode = file.permissions().mode() & 0o7777;
        let uid = file.uid();
        if mode & 0o044 != 0 && holds_secrets(document) {
            warn(format!("its mode {mode:04o} lets others read the secrets in it; use 0600"));
        }
        if mode & 0o022 != 0 {
            warn(format!(
                "its mode {mode:04o} lets others write to it, so sandboxes will refuse it; use 0600"
            ));
        }
        if uid != 0 {
            warn(format!("its owner is uid {uid}, not root, so sandboxes will refuse it"));
        }
        warnings
    }

    /// Parses the document: what it says and every warning, or every problem.
    pub fn parse(&self) -> Result<(Document, Vec<Finding>), Problems> {
        let Checked { document, warnings, .. } = Document::parse(&self.text)?;
        let mut findings = self.warnings(&document);
        findings.extend(warnings.iter().map(of_warning));
        findings.extend(unusable(&document));
        Ok((document, findings))
    }

    /// The problems of the document as findings; first what it is, where it is none.
    pub fn findings(&self, problems: &Problems) -> Vec<Finding> {
        let foreign = foreign_kind::told(&self.text).map(|message| Finding {
            line: None,
            key: String::new(),
            message,
        });
        foreign.into_iter().chain(of_problems(problems)).collect()
    }

    /// Parses the document as the measured one, which no node has as a file of its own.
    pub fn parse_measured(&self) -> Result<(Document, Vec<Finding>), Problems> {
        let Checked { document, warnings, .. } = Document::parse_measured(&self.text)?;
        // The guest reads them by the same function.
        Pins::read(&document.pins)?;
        let mut findings: Vec<Finding> = warnings.iter().map(of_warning).collect();
        findings.extend(measured::warnings(&document)?);
        findings.extend(unusable(&document));
        Ok((document, findings))
    }
}

/// What the guest would not take. Not a problem of the document: the rest is good.
fn unusable(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, keys) in document.decryption_keys.tables() {
        let name = name.map_or(String::new(), |name| format!(".\"{}\"", name.written()));
        // A key with a password may cost a second, here as in the guest, so no more of them are
        // tried than there.
        let mut passwords = 0;
        for (key, number) in keys.iter().zip(1..) {
            let has_password = matches!(key, DecryptionKey::Given { password: Some(_), .. });
            passwords += usize::from(has_password);
            let limit = decryption_secret::MAX_PASSWORDS;
            let why = if has_password && passwords > limit {
                Some(format!(
                    "the guest tries {limit} keys with passwords, and those before it are as many"
                ))
            } else {
                decryption_secret::describe(key).err()
            };
            findings.extend(why.map(|why| Finding {
                line: None,
                key: format!("decryption-keys{name}.keys, item {number}"),
                message: format!("opens no image: {why}"),
            }));
        }
    }
    for (name, entry) in document.registries.iter() {
        let why = entry.client.as_ref().and_then(client_identity::fault);
        findings.extend(why.map(|why| Finding {
            line: None,
            key: format!("registries.\"{}\".client-key", name.written()),
            message: format!("every connection to the registry fails: {why}"),
        }));
    }
    findings.extend(root_dates::warnings(document, SystemTime::now()));
    findings
}

/// Whether anything in `document` must be kept from other users of the node.
fn holds_secrets(document: &Document) -> bool {
    let proxies = [&document.extra_env.http_proxy, &document.extra_env.https_proxy];
    // A proxy's address shows itself without its user name and password.
    let proxy_password = |proxy: &registry_config::ProxyUrl| proxy.url() != proxy.to_string();
    proxies.into_iter().flatten().any(proxy_password)
        || document
            .registries
            .iter()
            .any(|(_, entry)| !entry.credentials.is_anonymous() || entry.client.is_some())
        || document
            .decryption_keys
            .tables()
            .flat_map(|(_, keys)| keys)
            .any(|key| matches!(key, DecryptionKey::Given { .. }))
}

fn of_warning(warning: &Warning) -> Finding {
    Finding {
        line: Some(warning.line),
        key: warning.key.clone(),
        message: warning.effect.to_string(),
    }
}

/// How many problems there are, listed or not.
pub fn problem_count(problems: &Problems) -> usize {
    problems.iter().count() + problems.unlisted()
}

/// The problems as findings, the last of which says how many are not listed.
pub fn of_problems(problems: &Problems) -> Vec<Finding> {
    let mut findings: Vec<Finding> = problems
        .iter()
        .map(|problem| Finding {
            line: (problem.line > 0).then_some(problem.line),
            key: problem.key.clone(),
            message: problem.rule.to_string(),
        })
        .collect();
    let unlisted = problems.unlisted();
    if unlisted > 0 {
        let more = counted(unlisted, "more problem is", "more problems are");
        findings.push(Finding {
            line: None,
            key: String::new(),
            message: format!("{more} not listed"),
        });
    }
    findings
}

/// Whether a document is valid. Warnings, or every problem and then the `outcome`, go to standard
/// error: standard output is for results.
pub fn is_valid(input: &Input, path: &Path, outcome: &str) -> io::Result<bool> {
    let mut err = io::stderr();
    match input.parse() {
        Ok((_, warnings)) => print(&mut err, path, "warning: ", &warnings).map(|()| true),
        Err(problems) => {
            print(&mut err, path, "", &input.findings(&problems))?;
            let line = format!("{}: not valid, {outcome}", path.display());
            writeln!(err, "{}", one_line(&line))?;
            Ok(false)
        }
    }
}

/// Prints findings one per line, in the form that editors jump to: `FILE:LINE: KEY: MESSAGE`.
pub fn print(
    out: &mut impl Write,
    path: &Path,
    kind: &str,
    findings: &[Finding],
) -> io::Result<()> {
    for finding in findings {
        let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        let key = if finding.key.is_empty() { String::new() } else { format!("{}: ", finding.key) };
        let text = format!("{}{line}: {kind}{key}{}", path.display(), finding.message);
        writeln!(out, "{}", one_line(&text))?;
    }
    Ok(())
}

/// `count` and `noun`, in the plural where it is not one.
pub fn counted(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}
