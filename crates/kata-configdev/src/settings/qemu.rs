//! Which QEMU starts which machine type.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

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
