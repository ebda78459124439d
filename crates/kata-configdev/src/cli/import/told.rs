//! How findings and faults are told, by every import alike.

use std::io::{self, Write};

use credential_sources::{Finding, Loss};
use serde::Serialize;

use crate::lines;

/// A finding or fault in a JSON report.
#[derive(Serialize)]
pub struct Item<'a> {
    source: &'a str,
    key: &'a str,
    loss: &'static str,
    text: &'a str,
}

/// Findings or faults for a JSON report.
pub fn items(findings: &[Finding]) -> Vec<Item<'_>> {
    findings.iter().map(item).collect()
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

/// Whether something was left out or changed its meaning.
pub fn is_lossy(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.loss > Loss::Note)
}

/// Writes a line for each to standard error. Losses are errors if `is_strict`.
pub fn tell(findings: &[Finding], faults: &[Finding], is_strict: bool) -> io::Result<()> {
    let mut err = io::stderr().lock();
    let findings = findings.iter().map(|finding| {
        let kind = match finding.loss {
            Loss::Note => "note",
            _ if is_strict => "error",
            _ => "warning",
        };
        (kind, finding)
    });
    for (kind, finding) in findings.chain(faults.iter().map(|fault| ("error", fault))) {
        let line = format!("{kind}: {finding}");
        writeln!(err, "{}", lines::on_one_line(&line))?;
    }
    Ok(())
}
