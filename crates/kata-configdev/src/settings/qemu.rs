//! Which QEMU starts which machine type.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::value;
use crate::disk::Device;

/// QEMU where no setting names one.
pub const DEFAULT: &str = "/usr/bin/qemu-system-x86_64";

/// The real QEMU binaries of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Qemu {
    /// For machine types that have none of their own, and for calls without one.
    pub default: PathBuf,
    /// By the name of a machine type without its version, one of [`Device::FAMILIES`].
    #[serde(flatten)]
    pub by_machine: BTreeMap<String, PathBuf>,
}

impl Default for Qemu {
    fn default() -> Self {
        Self::from(PathBuf::from(DEFAULT))
    }
}

impl From<PathBuf> for Qemu {
    fn from(default: PathBuf) -> Self {
        Self { default, by_machine: BTreeMap::new() }
    }
}

/// By hand, because an untagged enum would report neither the place nor the type of a wrong value.
impl<'de> Deserialize<'de> for Qemu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathOrTable;

        #[derive(Deserialize)]
        struct Machine(#[serde(deserialize_with = "machine")] String);

        #[derive(Deserialize)]
        struct Program(#[serde(deserialize_with = "value::program")] PathBuf);

        impl<'de> Visitor<'de> for PathOrTable {
            type Value = Qemu;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path or a table of paths by machine type")
            }

            fn visit_str<E: Error>(self, path: &str) -> Result<Qemu, E> {
                value::absolute(path.into()).map(Qemu::from)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Qemu, A::Error> {
                let mut qemu = Qemu::default();
                while let Some((Machine(machine), Program(path))) = map.next_entry()? {
                    match machine.as_str() {
                        "default" => qemu.default = path,
                        _ => drop(qemu.by_machine.insert(machine, path)),
                    }
                }
                Ok(qemu)
            }
        }

        deserializer.deserialize_any(PathOrTable)
    }
}

/// The name of a machine type.
fn machine<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let machine = String::deserialize(deserializer)?;
    if machine == "default" || Device::FAMILIES.contains(&machine.as_str()) {
        return Ok(machine);
    }
    let known = Device::FAMILIES.join(", ");
    Err(D::Error::custom(format_args!("qemu: {machine:?} is none of default, {known}")))
}

impl Qemu {
    /// The binary for `machine`, the value of QEMU's `-machine` with or without a version.
    #[must_use]
    pub fn of_machine(&self, machine: Option<&str>) -> &Path {
        machine
            .and_then(Device::family)
            .and_then(|family| self.by_machine.get(family))
            .unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_type_finds_its_own_binary_in_every_version() {
        let qemu = Qemu {
            default: "/default".into(),
            by_machine: [("q35".into(), "/q35".into()), ("microvm".into(), "/m".into())].into(),
        };
        for (machine, expected) in [
            (Some("q35"), "/q35"),
            (Some("pc-q35-7.2"), "/q35"),
            (Some("microvm"), "/m"),
            (Some("virt-9.0"), "/default"),
            (Some("pc"), "/default"),
            (Some("unheard-of"), "/default"),
            (None, "/default"),
        ] {
            assert_eq!(qemu.of_machine(machine), Path::new(expected), "{machine:?}");
        }
    }
}
