//! `kata-configdev check`.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::finding::{self, Finding, Input, counted};
use crate::cli::CommandError;
use crate::exit;

/// The outcome, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    path: String,
    valid: bool,
    /// `None` where the document is not valid.
    registries: Option<usize>,
    /// What the event log of a guest keeps of the document, without its secrets; `None` where it is
    /// not valid, or measured.
    record: Option<String>,
    /// How many problems there are; of very many only the first are listed.
    problem_count: usize,
    problems: Vec<Finding>,
    warnings: Vec<Finding>,
}

/// Checks the document `path`, as the measured one if `measured`, and prints every finding. The
/// exit code says whether it is valid.
pub fn run(
    path: &Path,
    measured: bool,
    json: bool,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let mut report = Report {
        path: path.to_string_lossy().into_owned(),
        valid: false,
        registries: None,
        record: None,
        problem_count: 0,
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    let input = Input::read(path)?;
    let parsed = if measured {
        input.parse_measured()
    } else {
        input.parse()
    };
    match parsed {
        Ok((document, warnings)) => {
            report.valid = true;
            report.registries = Some(document.registries.len());
            report.record = (!measured).then(|| document.record());
            report.warnings = warnings;
        }
        Err(problems) => {
            report.problem_count = finding::problem_count(&problems);
            report.problems = finding::of_problems(&problems);
        }
    }
    if json {
        super::print_json(out, &report)?;
    } else {
        finding::print(out, path, "", &report.problems)?;
        finding::print(out, path, "warning: ", &report.warnings)?;
        writeln!(out, "{}: {}", path.display(), summary(&report))?;
    }
    Ok(if report.valid { 0 } else { exit::DATA })
}

fn summary(report: &Report) -> String {
    let Some(registries) = report.registries else {
        return format!(
            "not valid, {}",
            counted(report.problem_count, "problem", "problems")
        );
    };
    let registries = counted(registries, "registry", "registries");
    if report.warnings.is_empty() {
        format!("valid, {registries}")
    } else {
        let warnings = counted(report.warnings.len(), "warning", "warnings");
        format!("valid, {registries}, {warnings}")
    }
}
