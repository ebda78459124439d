//! Systemd's units, with their drop-ins.

use std::collections::{BTreeMap, BTreeSet};

use super::Check;

/// Where units are, the first of a name wins.
const FOLDERS: [&str; 3] = ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

/// What starts another unit.
const STARTS: [&str; 4] = ["Wants", "Requires", "BindsTo", "Upholds"];

/// The directives of a unit, in their order.
#[derive(Clone, Debug, Default)]
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

    /// Whether one of the words of `key` is `word`.
    pub fn says(&self, key: &str, word: &str) -> bool {
        let mut words = self.values(key).flat_map(str::split_whitespace);
        words.any(|other| other.trim_matches('"') == word)
    }

    pub fn has_condition(&self) -> bool {
        self.0.iter().any(|(key, _)| key.starts_with("Condition"))
    }
}

/// The template of an instance: `a@.service` of `a@b.service`.
fn template(name: &str) -> Option<String> {
    let (template, rest) = name.split_once('@')?;
    let (_, kind) = rest.rsplit_once('.')?;
    Some(format!("{template}@.{kind}"))
}

/// Where a unit can be, the first that counts first.
fn places(name: &str) -> Vec<String> {
    // An instance has what its template has, unless it says otherwise.
    let names = std::iter::once(name.to_owned()).chain(template(name));
    names.flat_map(|name| FOLDERS.map(|folder| format!("{folder}/{name}"))).collect()
}

/// The units that a boot starts, by name.
pub type Units = BTreeMap<String, Unit>;

impl Check<'_> {
    /// Whether this unit is masked: a link to `/dev/null`, and so no unit.
    fn is_masked(&self, name: &str) -> bool {
        let places = places(name);
        let path = self.unit_file(&places);
        path.is_some_and(|path| self.tree.is_masked(path))
    }

    /// The one that counts of these places.
    fn unit_file<'a>(&self, places: &'a [String]) -> Option<&'a String> {
        let is_there = |path: &&String| self.tree.is_masked(path) || self.tree.has(path);
        places.iter().find(is_there)
    }

    /// A unit with its drop-ins; `None` where there is none.
    fn unit(&mut self, name: &str) -> Option<Unit> {
        let places = places(name);
        let path = self.unit_file(&places)?;
        if self.tree.is_masked(path) {
            return None;
        }
        let mut unit = Unit::default();
        unit.add(&self.text(path)?);
        let mut drop_ins = BTreeMap::new();
        for place in &places {
            let folder = format!("{place}.d");
            for file in self.tree.names(&folder) {
                if file.ends_with(".conf") {
                    let path = format!("{folder}/{file}");
                    drop_ins.entry(file).or_insert(path);
                }
            }
        }
        // A masked one has taken the place of another of its name.
        for path in drop_ins.values() {
            if self.tree.is_masked(path) {
                continue;
            }
            if let Some(text) = self.text(path) {
                unit.add(&text);
            }
        }
        Some(unit)
    }

    /// Everything that the agent, or a target by its folder, starts; and what of that is masked.
    pub fn started_units(&mut self) -> (Units, BTreeSet<String>) {
        let mut open: BTreeSet<String> = ["kata-agent.service".to_owned()].into();
        for folder in FOLDERS {
            for target in self.tree.names(folder) {
                if target.ends_with(".target.wants") || target.ends_with(".target.requires") {
                    open.extend(self.tree.names(&format!("{folder}/{target}")));
                }
            }
        }
        let (mut units, mut masked) = (Units::new(), BTreeSet::new());
        while let Some(name) = open.pop_first() {
            let Some(unit) = self.unit(&name) else {
                if self.is_masked(&name) {
                    masked.insert(name);
                }
                continue;
            };
            for key in STARTS {
                let names = unit.values(key).flat_map(str::split_whitespace);
                open.extend(names.filter(|name| !units.contains_key(*name)).map(Into::into));
            }
            units.insert(name, unit);
        }
        (units, masked)
    }
}
