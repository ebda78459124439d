//! The tables of a registries.conf (version 2), as they are written. What an engine does by them is
//! the caller's to say.

use foreign_text::toml::{Field, Table, WrongType};

/// A file.
#[derive(Debug, Default)]
pub struct RegistriesConf<'t, 'i> {
    /// The `[[registry]]` tables in their order.
    pub registries: Vec<Registry<'t>>,
    /// The keys at the top beside those.
    pub others: Vec<Field<'t, 'i>>,
    /// What is not as the format has it, in the order of the text.
    pub odd: Vec<Odd>,
}

/// A `[[registry]]`. A string that is not there is empty, a flag false.
#[derive(Debug)]
pub struct Registry<'t> {
    /// The line, from 1.
    pub line: usize,
    /// The dotted path, such as `registry[0]`.
    pub path: String,
    /// Which images it is about.
    pub prefix: &'t str,
    /// Where they are.
    pub location: &'t str,
    /// Whether they may not be pulled.
    pub blocked: bool,
    /// Whether the location's TLS may be weak or absent.
    pub insecure: bool,
    /// Whether mirrors are for pulls by digest only.
    pub mirror_by_digest_only: bool,
    /// Where they are looked for first.
    pub mirrors: Vec<Mirror<'t>>,
}

/// A `[[registry.mirror]]`.
#[derive(Clone, Debug)]
pub struct Mirror<'t> {
    /// The line, from 1.
    pub line: usize,
    /// The dotted path, such as `registry[0].mirror[0]`.
    pub path: String,
    /// Where it is.
    pub location: &'t str,
    /// Whether its TLS may be weak or absent.
    pub insecure: bool,
    /// For which pulls it is.
    pub pull_from_mirror: &'t str,
}

/// Something that is not as the format has it.
#[derive(Debug)]
pub struct Odd {
    /// The line, from 1.
    pub line: usize,
    /// The dotted path.
    pub path: String,
    /// The wrong type; `None` for a key that no reader is known to have.
    pub wrong: Option<WrongType>,
}

/// A location as its host and what the engines put in the place of the prefix, or before the name
/// of a repository; empty in most cases.
#[must_use]
pub fn split(location: &str) -> (&str, &str) {
    let (host, path) = location.split_once('/').unwrap_or((location, ""));
    (host, path.trim_end_matches('/'))
}

/// Reads the tables.
#[must_use]
pub fn read<'t, 'i>(mut keys: Table<'t, 'i>) -> RegistriesConf<'t, 'i> {
    let mut odd = Vec::new();
    let tables = tables(&mut keys, "registry", &mut odd);
    let registries = tables.into_iter().map(|keys| registry(keys, &mut odd));
    RegistriesConf { registries: registries.collect(), others: keys.rest().collect(), odd }
}

fn registry<'t>(mut keys: Table<'t, '_>, odd: &mut Vec<Odd>) -> Registry<'t> {
    let read = Registry {
        line: keys.line,
        path: keys.path.clone(),
        prefix: take(&mut keys, "prefix", Field::text, odd),
        location: take(&mut keys, "location", Field::text, odd),
        blocked: take(&mut keys, "blocked", Field::flag, odd),
        insecure: take(&mut keys, "insecure", Field::flag, odd),
        mirror_by_digest_only: take(&mut keys, "mirror-by-digest-only", Field::flag, odd),
        mirrors: tables(&mut keys, "mirror", odd)
            .into_iter()
            .map(|keys| mirror(keys, odd))
            .collect(),
    };
    tell_rest(keys, odd);
    read
}

fn mirror<'t>(mut keys: Table<'t, '_>, odd: &mut Vec<Odd>) -> Mirror<'t> {
    let read = Mirror {
        line: keys.line,
        path: keys.path.clone(),
        location: take(&mut keys, "location", Field::text, odd),
        insecure: take(&mut keys, "insecure", Field::flag, odd),
        pull_from_mirror: take(&mut keys, "pull-from-mirror", Field::text, odd),
    };
    tell_rest(keys, odd);
    read
}

/// The value of a key, the default where it is absent or of another type.
fn take<'t, 'i, T: Default>(
    keys: &mut Table<'t, 'i>,
    key: &str,
    typed: impl FnOnce(&Field<'t, 'i>) -> Result<T, WrongType>,
    odd: &mut Vec<Odd>,
) -> T {
    let Some(field) = keys.take(key) else {
        return T::default();
    };
    typed(&field).unwrap_or_else(|wrong| {
        odd.push(Odd::of(&field, Some(wrong)));
        T::default()
    })
}

/// An array of tables, each with its number in its path.
fn tables<'t, 'i>(keys: &mut Table<'t, 'i>, key: &str, odd: &mut Vec<Odd>) -> Vec<Table<'t, 'i>> {
    let array = |field: &Field<'t, 'i>| {
        let items = field.items();
        let items = items.map_err(|_| field.wrong_type("array of tables"))?;
        Ok((field.path.clone(), items))
    };
    let (path, items) = take(keys, key, array, odd);
    let mut tables = Vec::new();
    for (index, mut item) in items.into_iter().enumerate() {
        item.path = format!("{path}[{index}]");
        match item.table() {
            Ok(table) => tables.push(table),
            Err(wrong) => odd.push(Odd::of(&item, Some(wrong))),
        }
    }
    tables
}

fn tell_rest(keys: Table<'_, '_>, odd: &mut Vec<Odd>) {
    odd.extend(keys.rest().map(|field| Odd::of(&field, None)));
}

impl Odd {
    fn of(field: &Field<'_, '_>, wrong: Option<WrongType>) -> Self {
        let (line, path) = (field.line, field.path.clone());
        Self { line, path, wrong }
    }
}
