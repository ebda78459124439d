//! `registries.yaml` of K3s and RKE2.
//!
//! It has containerd's own words, see `cri_registries`. The registry
//! itself is always asked last (`--disable-default-registry-endpoint` is an option of K3s that the
//! file does not show), and a registry that only `configs` has is asked without the mirrors of `*`.

mod text;

use foreign_text::toml::join;

use crate::cri_registries::{Engine, Placed, Registries, plans};
use crate::registry_file::assemble::assemble;
use crate::registry_file::{Import, ReadFile, Reader};

/// The longest file; a thousand registries have less.
pub const MAX_REGISTRIES_YAML_BYTES: usize = 256 << 10;

/// The program that reads the file.
const K3S: Engine = Engine {
    name: "K3s",
    identity_token: "identity_token",
    no_endpoint: "at most the node's embedded registry, which guests do not reach",
    all_mirrors_configured: false,
};

/// Reads a file. The CA files that it names are read by `read_file`, with absolute paths only.
pub fn read(bytes: &[u8], source: &str, read_file: &mut ReadFile<'_>) -> Import {
    let mut reader = Reader::new(source, read_file);
    let plans = match text::parse(bytes, |key| reader.unknown(key)) {
        Ok(file) => plans(&K3S, registries(file, &reader.source), &mut reader),
        Err(reason) => {
            reader.fault("", reason);
            Vec::new()
        }
    };
    assemble(plans, reader.report)
}

fn registries(file: text::File, source: &str) -> Registries {
    Registries {
        mirrors: placed("mirrors", file.mirrors, source).collect(),
        configs: placed("configs", file.configs, source).collect(),
    }
}

/// The entries of a table with their places; what is null says nothing.
fn placed<T: Default>(
    table: &str,
    entries: text::Table<T>,
    source: &str,
) -> impl Iterator<Item = (String, Placed<T>)> + use<T> {
    let (table, source) = (table.to_owned(), source.to_owned());
    entries.into_iter().map(move |(name, value)| {
        let placed = Placed {
            source: source.clone(),
            key: join(&table, &name),
            value: value.unwrap_or_default(),
        };
        (name, placed)
    })
}
