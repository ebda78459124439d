//! How every import ends: the document, what was lost on the way to it, and what is wrong.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::merge::MergeError;
use credential_sources::{Finding, Loss};
use foreign_text::one_line;
use registry_config::Warning;
use serde::Serialize;
use serde_json::Value;

use crate::cli::{CommandError, UsageError};
use crate::exit;

/// What an import made of its files.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The new document, where there is one.
    pub document: Option<&'a str>,
    /// What was left out, and what changes its meaning.
    pub findings: &'a [Finding],
    /// What is wrong, so that there is no document.
    pub faults: &'a [Finding],
    /// How many more findings and faults there are.
    pub unlisted: usize,
    /// Whether anything at all was taken over.
    pub is_empty: bool,
    /// What else this import has for programs, as a JSON object.
    pub more: Value,
}

/// How the outcome is printed, as options.
#[derive(Clone, Copy, Debug, Args)]
pub struct Printed {
    /// Print no document if anything is left out or changes its meaning (exit code 65).
    #[arg(long)]
    strict: bool,
    /// Print an empty document where the files have nothing for one, instead of failing (65).
    #[arg(long)]
    allow_empty: bool,
    /// Print one JSON object: document, findings, faults, and what else this import tells.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    /// `None` where there are faults, or with `--strict` losses.
    document: Option<&'a str>,
    findings: Vec<Item<'a>>,
    faults: Vec<Item<'a>>,
    #[serde(flatten)]
    more: Value,
}

#[derive(Serialize)]
struct Item<'a> {
    source: &'a str,
    key: &'a str,
    loss: &'static str,
    text: &'a str,
}

impl Outcome<'_> {
    /// Whether the document may be used.
    pub fn is_accepted(&self, printed: Printed) -> bool {
        let is_lossy = self.unlisted > 0 || self.findings.iter().any(is_loss);
        let is_enough = !self.is_empty || printed.allow_empty;
        self.faults.is_empty() && is_enough && !(printed.strict && is_lossy)
    }

    /// [`Self::is_accepted`] where parts are dropped for these faults, which is a loss.
    pub fn is_accepted_without(&self, dropped: &[Finding], printed: Printed) -> bool {
        (dropped.is_empty() || !printed.strict) && self.is_accepted(printed)
    }

    /// Prints the outcome, and says how the command ends.
    pub fn finish(self, printed: Printed, out: &mut impl Write) -> Result<u8, CommandError> {
        self.finish_without(&[], printed, out)
    }

    /// [`Self::finish`] where parts are dropped for these faults: the rest counts, and the command
    /// fails all the same.
    pub fn finish_without(
        self,
        dropped: &[Finding],
        printed: Printed,
        out: &mut impl Write,
    ) -> Result<u8, CommandError> {
        let is_accepted = self.is_accepted_without(dropped, printed);
        let mut faults = [self.faults, dropped].concat();
        if faults.is_empty() && self.is_empty && !printed.allow_empty {
            let text = "nothing is in it that a document can have; --allow-empty takes that too";
            faults.push(Finding::new("the import", "", Loss::Lost, text.to_owned()));
        }
        let document = self.document.filter(|_| is_accepted);
        if printed.json {
            let report = Report {
                document,
                findings: self.findings.iter().map(item).collect(),
                faults: faults.iter().map(item).collect(),
                more: self.more,
            };
            crate::cli::print_json(out, &report)?;
        } else {
            self.tell(&faults, printed.strict)?;
            out.write_all(document.unwrap_or_default().as_bytes())?;
        }
        Ok(if document.is_some() && dropped.is_empty() { 0 } else { exit::DATA })
    }

    /// Writes a line for each finding and fault to standard error. Losses are errors if
    /// `is_strict`.
    fn tell(&self, faults: &[Finding], is_strict: bool) -> io::Result<()> {
        let mut err = io::stderr().lock();
        let findings = self.findings.iter().map(|finding| {
            let kind = match finding.loss {
                Loss::Note => "note",
                _ if is_strict => "error",
                _ => "warning",
            };
            (kind, finding)
        });
        let faults = faults.iter().map(|fault| ("error", fault));
        for (kind, finding) in findings.chain(faults) {
            writeln!(err, "{}", one_line(&format!("{kind}: {finding}")))?;
        }
        if self.unlisted > 0 {
            writeln!(err, "and {} more", self.unlisted)?;
        }
        Ok(())
    }
}

fn is_loss(finding: &Finding) -> bool {
    finding.loss > Loss::Note
}

fn item(finding: &Finding) -> Item<'_> {
    Item {
        source: &finding.source,
        key: &finding.key,
        loss: match finding.loss {
            Loss::Note => "note",
            Loss::Widens => "widens",
            Loss::Lost => "lost",
        },
        text: &finding.text,
    }
}

/// Whether a document says nothing: it has comments at most.
pub fn says_nothing(document: &str) -> bool {
    let mut lines = document.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#'))
}

/// Requires that standard input is named once, among the files and as the document that they are
/// added to.
pub fn require_one_stdin(files: &[PathBuf], into: Option<&PathBuf>) -> Result<(), UsageError> {
    let all = files.iter().chain(into);
    match all.filter(|path| path.as_path() == Path::new("-")).count() {
        0 | 1 => Ok(()),
        _ => Err(UsageError::StandardInputTwice),
    }
}

/// How messages call the file that an argument names.
pub fn label(path: &Path) -> String {
    if path == Path::new("-") {
        return "standard input".into();
    }
    path.to_string_lossy().into_owned()
}

/// What was added to the document `name`. What is wrong with it becomes a fault.
pub fn added<T>(result: Result<T, MergeError>, name: &str, faults: &mut Vec<Finding>) -> Option<T> {
    match result {
        Ok(added) => return Some(added),
        Err(MergeError::Document(problems)) => faults.extend(problems.iter().map(|problem| {
            let text = format!("line {}: {}", problem.line, problem.rule);
            Finding::new(name, &problem.key, Loss::Lost, text)
        })),
        Err(error) => {
            let text = one_line(&error.to_string()).to_string();
            faults.push(Finding::new(name, "", Loss::Lost, text));
        }
    }
    None
}

/// The warnings about the new document, as findings.
pub fn notes(warnings: &[Warning]) -> impl Iterator<Item = Finding> {
    warnings.iter().map(|warning| {
        let text = format!("line {}: {}", warning.line, warning.effect);
        Finding::new("the new document", &warning.key, Loss::Note, text)
    })
}
