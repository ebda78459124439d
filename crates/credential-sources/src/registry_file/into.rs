//! Entries added to a document that is there already.

use registry_config::{Document, MAX_DOCUMENT_BYTES, Problems, Roots, Secret};
use zeroize::Zeroizing;

use super::document::DOCUMENT;
use super::{Import, Report, Written};
use crate::merge::holds_for;

impl Import {
    /// Writes the entries behind the document `text`, which `name` stands for in messages. Its own
    /// entries win: of a registry for which one of them holds, or which one of them names as a
    /// mirror, nothing is taken over, and that is told.
    ///
    /// What is not valid in either document, or in both together, is a fault.
    #[must_use]
    pub fn write_into(mut self, text: &[u8], name: &str, system_roots: Option<&Roots>) -> Written {
        let report = &mut self.report;
        let own = match Document::parse(text) {
            Ok(checked) => checked.document,
            Err(problems) => {
                tell(&problems, name, report);
                return self.write(system_roots);
            }
        };
        if own.node_error.is_some() {
            let rule = "the document is a reason why the node has none; remove that key first";
            report.fault(name, "node-error", rule);
        }
        self.entries.retain(|entry| {
            let Some(holder) = holds_for(&own.registries, &entry.name) else {
                return true;
            };
            // No file has a word about it.
            if entry.is_empty {
                return false;
            }
            let why =
                format!("left out: the document's own entry \"{}\" holds for it", holder.written());
            report.lost(&entry.source, &entry.name.written(), why);
            false
        });
        if self.entries.is_empty() {
            return Written {
                document: self.report.faults.is_empty().then(|| secret(text, "")),
                report: self.report,
            };
        }
        let Written { document, mut report } = self.write(system_roots);
        let Some(added) = document else {
            return Written { document: None, report };
        };
        let document = secret(text, added.expose());
        if document.expose().len() > MAX_DOCUMENT_BYTES {
            let rule = format!("together they are longer than {MAX_DOCUMENT_BYTES} bytes");
            report.fault(DOCUMENT, "", rule);
        } else if let Err(problems) = Document::parse(document.expose().as_bytes()) {
            tell(&problems, DOCUMENT, &mut report);
        }
        Written { document: report.faults.is_empty().then_some(document), report }
    }
}

/// Both texts, the second one as lines of its own.
fn secret(text: &[u8], added: &str) -> Secret {
    // It was parsed, so that it is text.
    let text = std::str::from_utf8(text).unwrap_or_default();
    // Large enough from the start: a string that grows leaves copies of its secrets behind.
    let mut both = Zeroizing::new(String::with_capacity(text.len() + added.len() + 2));
    both.push_str(text);
    if !text.is_empty() && !added.is_empty() {
        both.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
    }
    both.push_str(added);
    Secret::from(both)
}

fn tell(problems: &Problems, name: &str, report: &mut Report) {
    for problem in problems.iter() {
        let text = format!("line {}: {}", problem.line, problem.rule);
        report.fault(name, &problem.key, text);
    }
}

#[cfg(test)]
mod tests {
    use registry_config::{Mirror, Registry, RegistryName};

    use super::super::Entry;
    use super::*;

    fn import(names: &[&str]) -> Import {
        let entry = |name: &&str| Entry {
            name: RegistryName::parse(name).unwrap(),
            source: "hosts.toml".into(),
            registry: Registry {
                mirrors: vec![Mirror::new("https://mirror.example", None, &[]).unwrap()],
                mirror_fallback: true,
                ..Registry::default()
            },
            is_empty: false,
        };
        Import { entries: names.iter().map(entry).collect(), report: Report::default() }
    }

    #[test]
    fn what_the_document_has_wins() {
        let own = "[extra-env]\nHTTPS_PROXY = \"http://proxy.corp:3128\"\n\
            [registries.\"a.corp:443\"]\npassword = \"hunter2\"\nusername = \"robot\"\n\
            [registries.\".below.corp\"]\n\
            [registries.\"lender.corp\"]\nmirror = \"https://lent.corp\"";
        let names = ["a.corp.", "x.below.corp.", "lent.corp.", "b.corp.", "."];
        let written = import(&names).write_into(own.as_bytes(), "own.toml", None);
        assert!(written.report.faults.is_empty(), "{:?}", written.report);
        let text = written.document.unwrap();
        let added = text.expose().strip_prefix(own).unwrap();
        assert!(added.starts_with("\n\n[registries.\".\"]\n"), "{added}");
        assert!(added.contains("[registries.\"b.corp.\"]"), "{added}");
        let left_out = written.report.findings.iter();
        let left_out = left_out.filter(|finding| finding.text.starts_with("left out: "));
        let left_out: Vec<_> = left_out.map(|finding| finding.key.as_str()).collect();
        assert_eq!(left_out, ["a.corp.", "x.below.corp.", "lent.corp."]);

        let all = "[registries.\".\"]\n";
        let written = import(&["b.corp."]).write_into(all.as_bytes(), "own.toml", None);
        assert_eq!(written.document.unwrap().expose(), all);
    }

    #[test]
    fn a_document_that_is_not_valid_stays_alone() {
        for (own, rule) in [
            ("pasword = 1\n", "line 1: unknown key"),
            ("node-error = \"late\"\n", "remove that key first"),
            ("registries = {\"c.corp\" = {}}\n", "line 3: "),
        ] {
            let written = import(&["b.corp."]).write_into(own.as_bytes(), "own.toml", None);
            assert!(written.document.is_none(), "{own}");
            let faults = &written.report.faults;
            assert!(faults.iter().any(|fault| fault.text.contains(rule)), "{faults:?}");
        }
    }
}
