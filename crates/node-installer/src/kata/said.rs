//! What one file of Kata's configuration says, as far as it matters here.

use std::collections::BTreeSet;

use foreign_text::toml::{Field, NotToml, Table, Tree};

/// The wrapper's settings whose names could be those of a key of Kata. The others have a hyphen,
/// which no key of Kata has.
const PLAIN_SETTINGS: [&str; 7] =
    ["capacity", "document", "enabled", "engine", "qemu", "refuse", "transport"];

/// Whether a key below `[hypervisor.NAME]` is one of the wrapper's settings, and none of Kata's.
#[must_use]
pub fn is_wrapper_setting(key: &str) -> bool {
    key.contains('-') || PLAIN_SETTINGS.contains(&key)
}

/// Something that Kata's configuration turns on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// `[runtime] experimental_force_guest_pull`, which the Go runtime knows.
    GoGuestPull,
    /// `force_guest_pull` in `[runtime] experimental`, which runtime-rs knows.
    RustGuestPull,
    /// `[factory] enable_template`, which the Go runtime knows.
    GoTemplate,
    /// `[factory] vm_cache_number`, which the Go runtime knows.
    GoCache,
    /// `[hypervisor.qemu.factory] enable_template`, which runtime-rs knows.
    RustTemplate,
}

/// The keys whose values are handed on: the kind of their table, which has a table for each name
/// below it unless it is `runtime`, and the key.
const TOLD: [(&str, &str); 7] = [
    ("hypervisor", "kernel_params"),
    ("agent", "create_container_timeout"),
    ("agent", "dial_timeout"),
    ("agent", "dial_timeout_ms"),
    ("agent", "reconnect_timeout_ms"),
    ("agent", "request_timeout_ms"),
    ("runtime", "create_container_timeout"),
];

/// A value that is handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// An integer.
    Number(i64),
    /// A string.
    Text(String),
}

/// A key of [`TOLD`] with its value.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) kind: &'static str,
    pub(crate) key: &'static str,
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// A key below `[hypervisor.NAME]` or `[agent.NAME]`, where the Go runtime knows every key or
/// fails.
#[derive(Debug)]
pub(crate) struct Key {
    /// `hypervisor` or `agent`.
    pub(crate) kind: &'static str,
    pub(crate) line: usize,
    /// Safe to show.
    pub(crate) path: String,
    pub(crate) name: String,
}

/// What a file says. A value of a type that Kata refuses counts as none.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// `[runtime] hypervisor_name`, with its line. Only runtime-rs knows that key, and starts QEMU
    /// only where it says so.
    pub(crate) hypervisor_name: Option<(usize, String)>,
    /// The tables below `[hypervisor]`, with the line of each.
    pub(crate) hypervisors: Vec<(usize, String)>,
    /// With the line of each.
    pub(crate) switches: Vec<(Switch, usize, bool)>,
    /// `[hypervisor.qemu] path`, with its line.
    pub(crate) qemu_path: Option<(usize, String)>,
    /// The values that are handed on.
    pub(crate) told: Vec<Told>,
    /// The keys that nothing else here is about.
    pub(crate) keys: Vec<Key>,
    /// The names of all keys that have a value, also those that are commented out, as Kata's main
    /// files have most of the keys that it knows.
    pub(crate) mentioned: BTreeSet<String>,
}

impl Said {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, NotToml> {
        let tree = Tree::parse(text)?;
        let mut root = tree.table();
        let mut said = Self { mentioned: mentioned(text), ..Self::default() };
        if let Some(mut runtime) = table(&mut root, "runtime") {
            let name = runtime.take("hypervisor_name");
            said.hypervisor_name =
                name.map(|name| (name.line, name.text().unwrap_or_default().to_owned()));
            let go = runtime.take("experimental_force_guest_pull");
            said.switch(Switch::GoGuestPull, go, flag);
            said.switch(Switch::RustGuestPull, runtime.take("experimental"), forces);
            for field in runtime.rest() {
                said.tell("runtime", &field);
            }
        }
        if let Some(mut factory) = table(&mut root, "factory") {
            said.switch(Switch::GoTemplate, factory.take("enable_template"), flag);
            let cache = factory.take("vm_cache_number");
            said.switch(Switch::GoCache, cache, |field| Some(field.integer().ok()? > 0));
        }
        for kind in ["hypervisor", "agent"] {
            let tables = table(&mut root, kind).into_iter();
            for field in tables.flat_map(Table::rest) {
                if let Ok(keys) = field.table() {
                    said.strict(kind, field.key, keys);
                }
            }
        }
        Ok(said)
    }

    fn strict(&mut self, kind: &'static str, name: &str, mut keys: Table<'_, '_>) {
        if kind == "hypervisor" {
            self.hypervisors.push((keys.line, name.to_owned()));
        }
        if (kind, name) == ("hypervisor", "qemu") {
            let path = keys.take("path");
            self.qemu_path = path.and_then(|path| Some((path.line, path.text().ok()?.to_owned())));
            if let Some(mut factory) = table(&mut keys, "factory") {
                self.switch(Switch::RustTemplate, factory.take("enable_template"), flag);
            }
        }
        for field in keys.rest() {
            // Kata starts nothing but QEMU here.
            if (kind, name) == ("hypervisor", "qemu") || kind == "agent" {
                self.tell(kind, &field);
            }
            self.keys.push(Key {
                kind,
                line: field.line,
                name: field.key.to_owned(),
                path: field.path,
            });
        }
    }

    fn tell(&mut self, kind: &str, field: &Field<'_, '_>) {
        let told = TOLD.iter().find(|told| **told == (kind, field.key));
        let text = || field.text().ok().map(|text| Value::Text(text.to_owned()));
        let value = field.integer().ok().map(Value::Number).or_else(text);
        if let (Some((kind, key)), Some(value)) = (told, value) {
            self.told.push(Told { kind, key, line: field.line, value });
        }
    }

    fn switch(
        &mut self,
        switch: Switch,
        field: Option<Field<'_, '_>>,
        is_on: impl Fn(&Field<'_, '_>) -> Option<bool>,
    ) {
        let said = field.and_then(|field| Some((switch, field.line, is_on(&field)?)));
        self.switches.extend(said);
    }
}

fn mentioned(text: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text);
    let keys = text.lines().filter_map(|line| line.split_once('='));
    keys.map(|(key, _)| key.trim_matches(|c| c == '#' || c == ' ').to_owned()).collect()
}

fn table<'t, 'i>(above: &mut Table<'t, 'i>, key: &str) -> Option<Table<'t, 'i>> {
    above.take(key)?.table().ok()
}

fn flag(field: &Field<'_, '_>) -> Option<bool> {
    field.flag().ok()
}

fn forces(field: &Field<'_, '_>) -> Option<bool> {
    let items = field.items().ok()?;
    Some(items.iter().any(|item| item.text() == Ok("force_guest_pull")))
}
