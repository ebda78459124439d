//! `kata-configdev check`.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use self::ask::Question;
use super::finding::{self, Finding, Input, counted};
use crate::cli::{CommandError, UsageError};
use crate::exit;

mod ask;

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
    /// What `imagepuller probe` says, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Value>,
}

/// Checks the document, and prints every finding. The exit code says whether it is valid; with
/// `--ask` also whether pulls by it would work.
pub fn run(arguments: &super::Check, out: &mut impl Write) -> Result<u8, CommandError> {
    let super::Check {
        file: path,
        measured,
        ask,
        images,
        json,
    } = arguments;
    let (measured, json) = (*measured, *json);
    let mut report = Report {
        path: path.to_string_lossy().into_owned(),
        valid: false,
        registries: None,
        record: None,
        problem_count: 0,
        problems: Vec::new(),
        warnings: Vec::new(),
        asked: None,
    };
    let input = Input::read(path)?;
    if *ask && !input.is_file() {
        return Err(UsageError::AskedTwice(path.clone()).into());
    }
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
    let question = Question {
        path,
        measured,
        images,
        json,
    };
    let is_asked = *ask && report.valid;
    if json {
        let answer = is_asked.then(|| question.ask()).transpose()?;
        report.asked = answer.as_ref().map(ask::Answer::object);
        super::print_json(out, &report)?;
        if let Some(answer) = answer {
            return Ok(answer.code);
        }
    } else {
        finding::print(out, path, "", &report.problems)?;
        finding::print(out, path, "warning: ", &report.warnings)?;
        writeln!(out, "{}: {}", path.display(), summary(&report))?;
        if is_asked {
            writeln!(out, "{}:", ask::FROM)?;
            out.flush()?;
            let answer = question.ask()?;
            out.write_all(&answer.said)?;
            return Ok(answer.code);
        }
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
