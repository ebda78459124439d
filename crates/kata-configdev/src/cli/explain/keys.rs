//! Which keys of `[decryption-keys]` the guest tries on an image's encrypted layers. No key is
//! shown, and none is read.

use pull_route::{PlacedKey, Settings};
use registry_config::{Origin, RegistryName};
use serde::Serialize;

use super::Image;

/// The keys of one table that holds for the image.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Whether the document that it is in is the owner's.
    measured: bool,
    /// The table's name as the document has it; `None` for that of every image.
    table: Option<String>,
    /// How many keys there are.
    count: usize,
}

/// The tables with keys for `image`, in the order in which the guest tries them.
pub fn tables(settings: &Settings, image: &Image) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for PlacedKey { origin, table, .. } in settings.decryption_keys(&image.host, &image.repository)
    {
        let measured = origin == Origin::Measured;
        let table = table.map(RegistryName::written);
        match tables.last_mut() {
            Some(last) if last.measured == measured && last.table == table => last.count += 1,
            _ => tables.push(Table { measured, table, count: 1 }),
        }
    }
    tables
}

/// What the line says of `tables`, where there are any.
pub fn told(tables: &[Table]) -> Option<String> {
    let told = tables.iter().map(|Table { measured, table, count }| {
        let what = match table {
            Some(name) => format!("of table \"{name}\""),
            None => "for every image".to_owned(),
        };
        let whose = if *measured { " in the measured document" } else { "" };
        format!("{count} {what}{whose}")
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| format!("for encrypted layers: {}", told.join(", then ")))
}
