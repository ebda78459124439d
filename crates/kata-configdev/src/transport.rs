//! How an image gets to the hypervisor.

use serde::{Deserialize, Serialize};

/// How the image gets to the hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Transport {
    /// A sealed anonymous file, handed over as a descriptor. Nothing to clean up.
    #[default]
    Memory,
    /// A file below `/run` that goes away with `detach` or `sweep`.
    File,
    /// A read-only loop device over the sealed anonymous file; the kernel removes it with its last
    /// user.
    Loop,
    /// A vhost-user device, served by a process of its own.
    VhostUser,
}

impl Transport {
    /// Every transport.
    pub const ALL: [Self; 4] = [Self::Memory, Self::File, Self::Loop, Self::VhostUser];

    /// Whether the wrapper can use it.
    ///
    /// Not `loop`: QEMU would have to open the device before the wrapper lets go of it, which an
    /// exec cannot wait for. Not `vhost-user`: it needs a second process, and Kata's cooperation in
    /// sharing the guest's memory.
    #[must_use]
    pub const fn is_for_wrapper(self) -> bool {
        matches!(self, Self::Memory | Self::File)
    }

    /// The transport's name in settings, arguments and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Loop => "loop",
            Self::VhostUser => "vhost-user",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_have_one_name() {
        for transport in Transport::ALL {
            let shown = serde_json::to_value(transport).unwrap();
            assert_eq!(shown, transport.name());
        }
    }
}
