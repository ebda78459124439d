//! The environment that a systemd service gives its program, as far as files say it.
//!
//! Read are the unit and its drop-ins, wherever systemd looks for them, in its order:
//! `Environment=`, `EnvironmentFile=` and `UnsetEnvironment=` of `[Service]`. What the manager
//! itself passes on (`PassEnvironment=`, `DefaultEnvironment=` of `system.conf`) is not in the
//! unit's files.
//!
//! - `lookup`: which files count. `syntax`: the lines of a unit. `words`: quoting.
//!   `specifier`: what begins with a percent sign. `environment_file`: files of variables.
//!
//! From systemd's manual, systemd.unit(5), systemd.exec(5), systemd.syntax(7), and its
//! `conf-parser.c`, `extract-word.c`, `env-file.c`.

mod environment_file;
mod lookup;
mod specifier;
mod syntax;
mod words;

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::node_files::{Hidden, NodeFiles, Unread, is_pattern, matching};
use crate::printable;
use crate::registry_file::Report;

pub use lookup::UnitName;

/// The longest unit, drop-in or file of variables. Free to change.
pub const MAX_UNIT_BYTES: usize = 256 << 10;

/// The most drop-ins, and the most files of variables, of a unit. Free to change.
pub const MAX_UNIT_FILES: usize = 256;

/// Variables by name, in no order; a later value has replaced an earlier one.
pub type Variables = std::collections::BTreeMap<String, Zeroizing<String>>;

/// Reads the environment of a unit. Only variables that are `wanted` are kept, since others may be
/// secrets too. Faults are what systemd would not start the service with.
pub fn environment(
    unit: &UnitName,
    wanted: &dyn Fn(&str) -> bool,
    files: &mut dyn NodeFiles,
    report: &mut Report,
) -> Variables {
    let mut service = Service::default();
    for path in lookup::files(unit, files, report) {
        let source = printable(&path.to_string_lossy());
        let text = match files.read(&path, MAX_UNIT_BYTES) {
            Ok(text) => text,
            // Masked: the name counts, and there is nothing in it.
            Err(Unread::Absent | Unread::NotRegular) => {
                report.note(&source, "", "is masked: it says nothing");
                continue;
            }
            Err(why) => {
                report.fault(&source, "", why.to_string());
                continue;
            }
        };
        service.read(&String::from_utf8_lossy(&text), unit, wanted, &source, report);
    }
    service.resolve(wanted, files, report)
}

/// What the files of a unit say, in their order.
#[derive(Default)]
struct Service {
    assignments: Vec<Zeroizing<String>>,
    files: Vec<EnvironmentFile>,
    unset: Vec<Zeroizing<String>>,
}

struct EnvironmentFile {
    path: String,
    is_optional: bool,
    /// The unit's file that names it.
    source: String,
}

impl Service {
    fn read(
        &mut self,
        text: &str,
        unit: &UnitName,
        wanted: &dyn Fn(&str) -> bool,
        source: &str,
        report: &mut Report,
    ) {
        let add = |list: &mut Vec<_>, key: &str, value: &str, report: &mut Report| {
            let source = Source { key, source };
            add_words(list, value, unit, wanted, source, report);
        };
        syntax::assignments(text, "Service", &mut |key, value| match key {
            "Environment" => add(&mut self.assignments, key, value, report),
            "UnsetEnvironment" => add(&mut self.unset, key, value, report),
            "EnvironmentFile" if value.is_empty() => self.files.clear(),
            "EnvironmentFile" => self.add_file(value, unit, source, report),
            "PassEnvironment" if !value.is_empty() => {
                let text = "left out: variables of the manager are in none of its files";
                report.lost(source, key, text);
            }
            _ => {}
        });
    }

    fn add_file(&mut self, value: &str, unit: &UnitName, source: &str, report: &mut Report) {
        let key = "EnvironmentFile";
        let (is_optional, path) = match value.strip_prefix('-') {
            Some(path) => (true, path),
            None => (false, value),
        };
        let Some(path) = specifier::resolved(path, unit) else {
            report.lost(source, key, UNKNOWN_SPECIFIER);
            return;
        };
        if !path.starts_with('/') {
            report.lost(source, key, "left out: not an absolute path; systemd ignores it too");
        } else if self.files.len() == MAX_UNIT_FILES {
            report.fault(source, key, format!("more than {MAX_UNIT_FILES} files"));
        } else {
            self.files.push(EnvironmentFile {
                path: path.to_string(),
                is_optional,
                source: source.to_owned(),
            });
        }
    }

    /// The variables: files win over assignments, later ones over earlier ones.
    fn resolve(
        self,
        wanted: &dyn Fn(&str) -> bool,
        files: &mut dyn NodeFiles,
        report: &mut Report,
    ) -> Variables {
        let mut variables = Variables::new();
        for assignment in &self.assignments {
            let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
            if wanted(name) {
                variables.insert(name.to_owned(), Zeroizing::new(value.to_owned()));
            }
        }
        let mut budget = MAX_UNIT_FILES;
        for file in &self.files {
            for path in file.paths(budget, files, report) {
                budget = budget.saturating_sub(1);
                file.read(&path, wanted, &mut variables, files, report);
            }
        }
        for unset in &self.unset {
            match unset.split_once('=') {
                None => {
                    variables.remove(unset.as_str());
                }
                Some((name, value)) => {
                    if variables.get(name).is_some_and(|known| known.as_str() == value) {
                        variables.remove(name);
                    }
                }
            }
        }
        variables
    }
}

const UNKNOWN_SPECIFIER: &str = "left out: what a percent sign stands for there is known to \
    systemd only, if to anybody; a percent sign itself is written \"%%\"";

impl EnvironmentFile {
    /// The files that the path stands for.
    fn paths(&self, limit: usize, files: &mut dyn NodeFiles, report: &mut Report) -> Vec<PathBuf> {
        let path = Path::new(&self.path);
        if !is_pattern(&self.path) {
            return vec![path.to_owned()];
        }
        let found = matching(path, Hidden::Skipped, limit, files).unwrap_or_default();
        if found.len() > limit {
            let text = format!("more than {MAX_UNIT_FILES} files of variables");
            report.fault(&self.source, "EnvironmentFile", text);
            return Vec::new();
        }
        if found.is_empty() && !self.is_optional {
            let text = "no file has such a name, and systemd would not start the service";
            report.fault(&self.source, "EnvironmentFile", text);
        }
        found
    }

    fn read(
        &self,
        path: &Path,
        wanted: &dyn Fn(&str) -> bool,
        variables: &mut Variables,
        files: &mut dyn NodeFiles,
        report: &mut Report,
    ) {
        let source = printable(&path.to_string_lossy());
        match files.read(path, MAX_UNIT_BYTES) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                environment_file::assignments(&text, &mut |name, value| {
                    if wanted(name) {
                        variables.insert(name.to_owned(), Zeroizing::new(value.to_owned()));
                    }
                });
            }
            Err(_) if self.is_optional => {}
            Err(why) => {
                let text = format!("{why}, and systemd would not start the service");
                report.fault(&source, "", text);
            }
        }
    }
}

/// Adds the words of a value; an empty one takes away what was there. As in systemd, what follows a
/// syntax error is not read.
fn add_words(
    list: &mut Vec<Zeroizing<String>>,
    value: &str,
    unit: &UnitName,
    wanted: &dyn Fn(&str) -> bool,
    Source { key, source }: Source<'_>,
    report: &mut Report,
) {
    if value.is_empty() {
        list.clear();
        return;
    }
    for word in words::words(value) {
        let Ok(word) = word else {
            let text = "left out, with what follows it: a quote without an end, or an escape \
                sequence that systemd does not know";
            report.lost(source, key, text);
            return;
        };
        match specifier::resolved(&word, unit) {
            Some(word) => list.push(word),
            None => match word.split('=').next().filter(|name| wanted(name)) {
                // The name of a known variable is no secret.
                Some(name) => report.lost(source, key, format!("{name}: {UNKNOWN_SPECIFIER}")),
                // Whose value it is a part of is not known; it may be a password's.
                None => report.lost(source, key, UNKNOWN_SPECIFIER),
            },
        }
    }
}

/// Which key of which file says something.
struct Source<'s> {
    key: &'s str,
    source: &'s str,
}
