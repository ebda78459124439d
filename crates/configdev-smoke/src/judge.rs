//! From what was seen to one line for each part: a rule without I/O.
//!
//! `boot`: kernel, first programs, drivers. `processor`: verdict, policy, files. `service`:
//! sockets, clock, network, pull, memory.

mod boot;
mod processor;
mod service;
#[cfg(test)]
mod tests;

use problem::{Finding, Severity};

use crate::machine::{Run, UNVERIFIED};
use crate::options::Options;
use crate::surroundings::Surroundings;
use crate::verdict::{Kind, Row};

/// What was asked for, what the guest had, and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The command line.
    pub options: &'a Options,
    /// Disks and registry.
    pub around: &'a Surroundings,
    /// The guest.
    pub run: &'a Run,
}

/// How a part is, what was seen, and what to do; `None` where there is nothing to say.
type Said = Option<(Severity, String, &'static str)>;

/// A row's name, what it belongs to, and the rule.
type Part = (&'static str, Kind, fn(&Case<'_>) -> Said);

/// Of a guest that had no agent the first of these alone.
const BOOT: [Part; 5] = [
    ("boot", Kind::Boot, boot::boot),
    ("vsock", Kind::Drivers, boot::vsock),
    ("limit", Kind::Boot, boot::limit),
    ("disks", Kind::Drivers, boot::disks),
    ("run", Kind::Surroundings, boot::run_mount),
];

const PROCESSOR: [Part; 4] = [
    ("processor", Kind::Processor, processor::verdict),
    ("policy", Kind::Processor, processor::policy),
    ("files", Kind::Processor, processor::files),
    ("initdata-disk", Kind::Processor, processor::hidden),
];

const CLOCK: Part = ("clock", Kind::Surroundings, service::clock);

const SERVICE: [Part; 5] = [
    ("sockets", Kind::Sockets, service::sockets),
    CLOCK,
    ("network", Kind::Drivers, service::network),
    ("pull", Kind::Pull, service::pull),
    ("memory", Kind::Surroundings, service::memory),
];

/// In the place of [`SERVICE`] where the agent ends before.
const ENDED: [Part; 2] = [("agent", Kind::Sockets, service::ends), CLOCK];

const ALWAYS: [Part; 2] =
    [("secret", Kind::Processor, secret), ("parameter", Kind::Processor, parameter)];

/// All rows, in the order of a boot.
#[must_use]
pub fn judge(case: &Case<'_>) -> Vec<Row> {
    let seen = &case.run.seen;
    let parts = match &seen.agent {
        None => BOOT[..1].to_vec(),
        // The agent's own mount is over what the processor left: nothing of that can be told.
        Some(_) if seen.hides_results => [&BOOT[..], &[CLOCK]].concat(),
        Some(_) if seen.ends.is_some() => [&BOOT[..], &PROCESSOR, &ENDED].concat(),
        Some(_) => [&BOOT[..], &PROCESSOR, &SERVICE].concat(),
    };
    let rows = parts.iter().chain(&ALWAYS).filter_map(|(id, kind, rule)| {
        let (severity, text, remedy) = rule(case)?;
        let secs = match *id {
            "boot" => seen.agent_secs,
            "pull" => seen.pull.as_ref().map_or(0.0, |pull| pull.secs),
            _ => 0.0,
        };
        let (place, remedy) = (String::new(), remedy.to_owned());
        Some(Row { finding: Finding { severity, id, place, text, remedy }, kind: *kind, secs })
    });
    rows.collect()
}

fn parameter(case: &Case<'_>) -> Said {
    let remedy = "say it in kernel_params where pods with initdata run without a TEE; all of them \
                  are refused there otherwise";
    let text = || format!("{UNVERIFIED} was added, for initdata without a TEE");
    case.options.adds_unverified().then(|| warning(text(), remedy))?
}

fn secret(case: &Case<'_>) -> Said {
    let shows = case.run.console.contains(case.around.secret.as_ref()?);
    let remedy = "find out which program of the image writes it";
    shows.then(|| failed("the password is on the console", remedy))?
}

fn fine(text: impl Into<String>) -> Said {
    Some((Severity::Ok, text.into(), ""))
}

fn skipped() -> Said {
    Some((Severity::Skipped, "the agent did not get so far".to_owned(), ""))
}

fn warning(text: impl Into<String>, remedy: &'static str) -> Said {
    Some((Severity::Warning, text.into(), remedy))
}

fn failed(text: impl Into<String>, remedy: &'static str) -> Said {
    Some((Severity::Error, text.into(), remedy))
}

/// The beginning of a foreign text, on one line.
fn shown(text: &str, max_chars: usize) -> String {
    foreign_text::one_line(text.trim()).up_to(max_chars).to_string()
}
