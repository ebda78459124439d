//! What was found of one document.

use std::io::{self, Write};
use std::path::Path;

use foreign_text::one_line;
use serde::Serialize;
use serde_json::Value;

use super::ask::Question;
use crate::cli::CommandError;
use crate::cli::finding::{self, Finding, Input, counted};
use crate::cli::policy::measured;
use crate::exit;

/// The outcome, as `--json` prints it.
#[derive(Serialize)]
pub struct Report {
    path: String,
    pub valid: bool,
    /// `None` where the document is not valid.
    registries: Option<usize>,
    /// What the event log of a guest keeps of the document, without its secrets; `None` where it is
    /// not valid, or measured.
    record: Option<String>,
    /// How many problems there are; of very many only the first are listed.
    problem_count: usize,
    problems: Vec<Finding>,
    warnings: Vec<Finding>,
    /// What cannot be checked here; no reason to refuse the document.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Finding>,
    /// Why the file cannot be read, or the registries not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
    /// What `imagepuller probe` says, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Value>,
}

impl Report {
    /// Nothing, of this file.
    fn empty(path: &Path) -> Self {
        Self {
            path: path.to_string_lossy().into_owned(),
            valid: false,
            registries: None,
            record: None,
            problem_count: 0,
            problems: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            error: None,
            remedy: None,
            asked: None,
        }
    }

    /// What is found in `input`.
    pub fn of(path: &Path, input: &Input, measured: bool) -> Self {
        let mut report = Self::empty(path);
        let parsed = if measured { input.parse_measured() } else { input.parse() };
        match parsed {
            Ok((document, warnings)) => {
                report.valid = true;
                report.registries = Some(document.registries.len());
                report.record = (!measured).then(|| document.record());
                report.warnings = warnings;
                report.notes.extend(measured::unseen(&document));
                report.warnings.extend(input.says_nothing());
            }
            Err(problems) => {
                report.problem_count = finding::problem_count(&problems);
                report.problems = input.findings(&problems);
            }
        }
        report
    }

    /// That a file cannot be read.
    pub fn unread(path: &Path, error: &CommandError) -> Self {
        Self { error: Some(error.to_string()), remedy: Some(error.remedy()), ..Self::empty(path) }
    }

    /// Asks the registries; gives the exit code of that.
    pub fn ask(&mut self, question: &Question<'_>) -> u8 {
        match question.ask() {
            Ok(answer) => {
                self.asked = Some(answer.object());
                answer.code
            }
            Err(error) => {
                self.error = Some(error.to_string());
                self.remedy = Some(error.remedy());
                error.exit_code()
            }
        }
    }

    /// The exit code of a document of which this was found.
    pub fn code(&self, is_strict: bool) -> u8 {
        if self.valid && !self.is_refused(is_strict) { 0 } else { exit::DATA }
    }

    fn is_refused(&self, is_strict: bool) -> bool {
        is_strict && !self.warnings.is_empty()
    }

    /// Prints every finding, and a line with the outcome.
    pub fn print(&self, is_strict: bool, out: &mut impl Write) -> io::Result<()> {
        let path = match self.path.as_str() {
            "-" => Path::new("standard input"),
            path => Path::new(path),
        };
        let kind = if is_strict { "error: " } else { "warning: " };
        finding::print(out, path, "", &self.problems)?;
        finding::print(out, path, kind, &self.warnings)?;
        finding::print(out, path, "note: ", &self.notes)?;
        let refused = if self.is_refused(is_strict) { ", refused because of --strict" } else { "" };
        let line = format!("{}: {}{refused}", path.display(), self.summary());
        writeln!(out, "{}", one_line(&line))
    }

    fn summary(&self) -> String {
        let Some(registries) = self.registries else {
            let problems = counted(self.problem_count, "problem", "problems");
            return format!("not valid, {problems}");
        };
        let registries = counted(registries, "registry", "registries");
        if self.warnings.is_empty() {
            format!("valid, {registries}")
        } else {
            let warnings = counted(self.warnings.len(), "warning", "warnings");
            format!("valid, {registries}, {warnings}")
        }
    }
}
