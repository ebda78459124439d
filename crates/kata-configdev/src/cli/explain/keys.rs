//! Which keys of `[decryption-keys]` the guest tries on an image's encrypted layers. No key is
//! shown, and none is read.

use std::fmt;

use pull_route::{PlacedKey, Settings};
use registry_config::{Origin, RegistryName};
use serde::Serialize;

use super::Image;

/// The keys of one table that holds for the image.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Whose document it is in.
    #[serde(skip)]
    origin: Origin,
    /// Whether that is the owner's.
    measured: bool,
    /// The table's name as the document has it; `None` for that of every image.
    table: Option<String>,
    /// How many keys there are.
    count: usize,
}

impl Table {
    /// The tables with keys for `image`, in the order in which the guest tries them.
    pub fn all(settings: &Settings, image: &Image) -> Vec<Self> {
        let mut tables: Vec<Self> = Vec::new();
        for PlacedKey { origin, table, .. } in
            settings.decryption_keys(&image.host, &image.repository)
        {
            let table = table.map(RegistryName::written);
            match tables.last_mut() {
                Some(last) if last.origin == origin && last.table == table => last.count += 1,
                _ => tables.push(Self {
                    origin,
                    measured: origin == Origin::Measured,
                    table,
                    count: 1,
                }),
            }
        }
        tables
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.count)?;
        match &self.table {
            Some(name) => write!(f, "of table \"{name}\"")?,
            None => f.write_str("for every image")?,
        }
        match self.origin {
            Origin::Measured => write!(f, " in {}", self.origin),
            Origin::Host => Ok(()),
        }
    }
}

/// What the line says of `tables`, where there are any.
pub fn told(tables: &[Table]) -> Option<String> {
    let told: Vec<_> = tables.iter().map(ToString::to_string).collect();
    (!told.is_empty()).then(|| format!("for encrypted layers: {}", told.join(", then ")))
}
