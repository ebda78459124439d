//! From what was seen to one line for each part: a rule without I/O.
//!
//! `boot`: kernel, first programs, drivers. `processor`: verdict, policy, files. `service`:
//! sockets, clock, network, pull, memory.

mod boot;
mod processor;
mod service;
#[cfg(test)]
mod tests;

use crate::check_image::Finding;
use crate::exit::{self, Kind};
use crate::machine::{Ended, Run, UNVERIFIED};
use crate::options::Expect;
use crate::seen::Seen;

/// How a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Fine,
    /// Worth to know.
    Warning,
    /// Not looked at, and why.
    Skipped,
    /// Not as it should be.
    Failed,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The part's name, which programs may rely on.
    pub name: &'static str,
    /// What it belongs to.
    pub kind: Kind,
    /// How it is.
    pub state: State,
    /// What was seen.
    pub text: String,
    /// What to do.
    pub remedy: Option<&'static str>,
    /// Seconds that it took, where that is known.
    pub secs: Option<f64>,
}

/// What the guest had, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The state at the end.
    pub expect: Expect,
    /// There was an initdata disk.
    pub has_initdata: bool,
    /// Its document was made here.
    pub own_initdata: bool,
    /// [`UNVERIFIED`] was added to the kernel's parameters.
    pub adds_unverified: bool,
    /// There was a disk with the node's document.
    pub has_document: bool,
    /// An image was asked for.
    pub has_image: bool,
    /// Its digest, where it is known.
    pub digest: Option<String>,
    /// What must not show on the console.
    pub secret: Option<String>,
    /// The seconds since 1970 when the guest was started, and when it ended.
    pub clock_secs: (u64, u64),
    /// The limit in seconds.
    pub timeout: u64,
}

/// Everything that was seen, with what is expected.
struct View<'a> {
    case: &'a Case,
    run: &'a Run,
}

/// All rows, in the order of a boot; after them what `check-image` found, or why it was not asked.
#[must_use]
pub fn judge(case: &Case, run: &Run, findings: Result<Vec<Finding>, String>) -> Vec<Row> {
    let view = View { case, run };
    let mut rows = view.boot();
    if view.hides_results() {
        rows.push(view.clock());
    } else if view.has_agent() {
        rows.extend(view.processor());
        rows.extend(view.service());
    }
    rows.extend(view.secret());
    rows.extend(view.parameter());
    rows.extend(found(findings));
    rows
}

/// The exit code: the first kind that failed.
#[must_use]
pub fn exit_code(rows: &[Row], ended: &Ended) -> u8 {
    let failed = rows.iter().filter(|row| row.state == State::Failed);
    let Some(first) = failed.map(|row| row.kind).min() else {
        return exit::FINE;
    };
    match ended {
        Ended::Timeout | Ended::Console if first != Kind::Image => exit::LIMIT,
        _ => first as u8,
    }
}

fn found(findings: Result<Vec<Finding>, String>) -> Vec<Row> {
    let row = |state, text| Row {
        name: "check-image",
        kind: Kind::Image,
        state,
        text,
        remedy: None,
        secs: None,
    };
    match findings {
        Err(why) => vec![row(State::Skipped, why)],
        Ok(findings) if findings.is_empty() => vec![row(State::Fine, "no finding".into())],
        Ok(findings) => {
            let findings = findings.into_iter().map(|finding| {
                let state = match finding.level.as_str() {
                    "error" => State::Failed,
                    _ => State::Warning,
                };
                row(state, format!("{}: {}", finding.subject, finding.text))
            });
            findings.collect()
        }
    }
}

impl View<'_> {
    fn seen(&self) -> impl Iterator<Item = &Seen> {
        self.run.seen.iter().map(|(_, seen)| seen)
    }

    fn find<T>(&self, pick: impl Fn(&Seen) -> Option<T>) -> Option<T> {
        self.seen().find_map(pick)
    }

    fn has_agent(&self) -> bool {
        self.seen().any(|seen| matches!(seen, Seen::Agent { .. }))
    }

    /// The agent's own mount is over what the processor left: nothing of that can be told.
    fn hides_results(&self) -> bool {
        let hides = |seen: &Seen| matches!(seen, Seen::Run { by_agent: true, .. });
        self.seen().any(hides)
    }

    fn parameter(&self) -> Option<Row> {
        self.case.adds_unverified.then(|| {
            Row::new("parameter", Kind::Processor).warning(
                format!("{UNVERIFIED} was added, for initdata without a TEE"),
                "say it in kernel_params where pods with initdata run without a TEE; all of them \
                 are refused there otherwise",
            )
        })
    }

    fn secret(&self) -> Option<Row> {
        let secret = self.case.secret.as_ref()?;
        let shows = self.run.console.contains(secret.as_str());
        shows.then(|| {
            Row::new("secret", Kind::Processor).failed(
                "the password is on the console",
                "find out which program of the image writes it",
            )
        })
    }
}

impl Row {
    fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, state: State::Fine, text: String::new(), remedy: None, secs: None }
    }

    fn fine(self, text: impl Into<String>) -> Self {
        self.with(State::Fine, text, None)
    }

    fn skipped(self, text: impl Into<String>) -> Self {
        self.with(State::Skipped, text, None)
    }

    fn warning(self, text: impl Into<String>, remedy: &'static str) -> Self {
        self.with(State::Warning, text, Some(remedy))
    }

    fn failed(self, text: impl Into<String>, remedy: &'static str) -> Self {
        self.with(State::Failed, text, Some(remedy))
    }

    fn with(self, state: State, text: impl Into<String>, remedy: Option<&'static str>) -> Self {
        Self { state, text: text.into(), remedy, ..self }
    }

    fn secs(self, secs: f64) -> Self {
        Self { secs: Some(secs), ..self }
    }
}
