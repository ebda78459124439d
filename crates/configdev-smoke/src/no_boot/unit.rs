//! Systemd's units, with their drop-ins.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;

use super::Check;

/// Where units are, the first of a name wins.
const FOLDERS: [&str; 3] = ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

/// What starts another unit.
const STARTS: [&str; 4] = ["Wants", "Requires", "BindsTo", "Upholds"];

/// The directives of a unit, in their order.
#[derive(Debug, Default)]
pub struct Unit(Vec<(String, String)>);

impl Unit {
    fn add(&mut self, text: &str) {
        let joined = text.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with(['#', ';']));
        for (key, value) in lines.filter_map(|line| line.split_once('=')) {
            let (key, value) = (key.trim_end(), value.trim_start());
            if value.is_empty() {
                self.0.retain(|(other, _)| other != key);
            } else {
                self.0.push((key.to_owned(), value.to_owned()));
            }
        }
    }

    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.0.iter().filter(move |(other, _)| other == key);
        pairs.map(|(_, value)| value.as_str())
    }

    /// The words of all values of `key`.
    pub fn words<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.values(key).flat_map(str::split_whitespace)
    }

    /// Whether one of the words of `key` is `word`.
    pub fn says(&self, key: &str, word: &str) -> bool {
        self.words(key).any(|other| other.trim_matches('"') == word)
    }

    pub fn has_condition(&self) -> bool {
        self.0.iter().any(|(key, _)| key.starts_with("Condition"))
    }
}

/// The units that a boot starts, by name.
pub type Units = BTreeMap<String, Unit>;

impl Check<'_> {
    /// A unit with its drop-ins. `None` where there is none, or a link to `/dev/null`, which masks
    /// it.
    fn unit(&self, name: &str) -> Option<Unit> {
        let places = FOLDERS.map(|folder| format!("{folder}/{name}"));
        let is_masked = |path: &str| self.tree.is_masked(path);
        let path = places.iter().find(|path| is_masked(path) || self.tree.has(path))?;
        let mut drop_ins = BTreeMap::new();
        for folder in places.iter().map(|place| format!("{place}.d")) {
            let files = self.tree.names(&folder).into_iter();
            for file in files.filter(|file| file.ends_with(".conf")) {
                let path = format!("{folder}/{file}");
                drop_ins.entry(file).or_insert(path);
            }
        }
        let mut unit = Unit::default();
        // A masked drop-in has taken the place of another of its name.
        for path in once(path).chain(drop_ins.values()).filter(|path| !is_masked(path)) {
            unit.add(&self.text(path).unwrap_or_default());
        }
        (!is_masked(path)).then_some(unit)
    }

    /// Everything that the agent, or a target by its folder, starts.
    pub fn started_units(&self) -> Units {
        let mut open = BTreeSet::from(["kata-agent.service".to_owned()]);
        for folder in FOLDERS {
            for target in self.tree.names(folder) {
                if target.ends_with(".target.wants") || target.ends_with(".target.requires") {
                    open.extend(self.tree.names(&format!("{folder}/{target}")));
                }
            }
        }
        let mut units = Units::new();
        while let Some(name) = open.pop_first() {
            if let Some(unit) = self.unit(&name) {
                let names = STARTS.iter().flat_map(|key| unit.words(key));
                open.extend(names.filter(|name| !units.contains_key(*name)).map(Into::into));
                units.insert(name, unit);
            }
        }
        units
    }
}
