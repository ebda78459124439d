//! Which files a unit consists of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::MAX_UNIT_FILES;
use crate::node_files::NodeFiles;
use crate::registry_file::Report;

/// Where the system's manager looks for units, the first first.
const DIRECTORIES: [&str; 13] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// What the names of services end with.
const SUFFIX: &str = ".service";

/// What the names of drop-ins end with.
const DROP_IN: &str = ".conf";

/// How long a unit's name may be, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The name of a service that is no instance of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitName(String);

impl UnitName {
    /// Reads a name, with or without `.service`; `None` where it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let stem = text.strip_suffix(SUFFIX).unwrap_or(text);
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\".contains(&byte);
        let is_name = !stem.is_empty() && stem.bytes().all(is_legal) && !stem.starts_with('.');
        let full = format!("{stem}{SUFFIX}");
        (is_name && full.len() <= MAX_NAME_BYTES).then_some(Self(full))
    }

    /// The whole name.
    #[must_use]
    pub fn full(&self) -> &str {
        &self.0
    }

    /// The name without its suffix.
    #[must_use]
    pub fn stem(&self) -> &str {
        self.0.strip_suffix(SUFFIX).unwrap_or(&self.0)
    }

    /// The names whose drop-ins hold in one directory, those that win first: `a-b.service`,
    /// `a-.service`.
    fn with_prefixes(&self) -> impl Iterator<Item = String> {
        let stem = self.stem();
        let dashes = stem.match_indices('-').map(|(at, _)| at).rev();
        let dashes = dashes.filter(|at| *at > 0 && at + 1 < stem.len());
        let prefixes = dashes.map(|at| format!("{}-{SUFFIX}", &stem[..at]));
        std::iter::once(self.0.clone()).chain(prefixes)
    }
}

/// The unit, and its drop-ins in the order in which a later one wins. That there is no unit is a
/// fault.
pub(super) fn files(
    unit: &UnitName,
    files: &mut dyn NodeFiles,
    report: &mut Report,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut has = |directory: &Path| files.list(directory).contains(&unit.0);
    match DIRECTORIES.iter().map(Path::new).find(|directory| has(directory)) {
        Some(directory) => found.push(directory.join(&unit.0)),
        None => {
            let text = "no such unit in /etc/systemd/system, /run/systemd/system, \
                /usr/lib/systemd/system or the others of systemd's directories; of a node whose \
                files are elsewhere, --root names the place";
            report.fault(unit.full(), "", text);
            return found;
        }
    }
    // Of files of one name the first counts, wherever it lies; and the names are their order.
    let mut drop_ins: BTreeMap<String, PathBuf> = BTreeMap::new();
    for directory in drop_in_directories(unit) {
        for name in files.list(&directory) {
            if !name.ends_with(DROP_IN) || name.starts_with('.') {
                continue;
            }
            if drop_ins.len() == MAX_UNIT_FILES {
                let text = format!("it has more than {MAX_UNIT_FILES} drop-ins");
                report.fault(unit.full(), "", text);
                return found;
            }
            let path = directory.join(&name);
            drop_ins.entry(name).or_insert(path);
        }
    }
    found.extend(drop_ins.into_values());
    found
}

/// Where drop-ins are, those first that win: of the unit and of its prefixes, then of all services.
fn drop_in_directories(unit: &UnitName) -> impl Iterator<Item = PathBuf> {
    let own = DIRECTORIES.iter().flat_map(|directory| {
        let names = unit.with_prefixes();
        names.map(|name| Path::new(directory).join(name + ".d"))
    });
    let all = DIRECTORIES.iter().map(|directory| Path::new(directory).join("service.d"));
    own.chain(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for (text, expected) in [
            ("containerd", Some("containerd.service")),
            ("rke2-agent.service", Some("rke2-agent.service")),
            ("../x", None),
            (".service", None),
            ("a@b.service", None),
            ("", None),
        ] {
            let name = UnitName::parse(text);
            assert_eq!(name.as_ref().map(UnitName::full), expected, "{text}");
        }
        let name = UnitName::parse("a-b-c").unwrap();
        let names: Vec<_> = name.with_prefixes().collect();
        assert_eq!(names, ["a-b-c.service", "a-b-.service", "a-.service"]);
    }
}
