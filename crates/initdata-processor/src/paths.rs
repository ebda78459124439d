//! Where the kernel's interfaces and the results are.

use std::path::{Path, PathBuf};

/// The places this program reads and writes; trusted, since only the guest's kernel and init make them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The sysfs class of block devices.
    pub block_class: PathBuf,
    /// Device nodes.
    pub dev: PathBuf,
    /// Platform devices in sysfs.
    pub platform_devices: PathBuf,
    /// What the kernel knows about the processors.
    pub cpuinfo: PathBuf,
    /// The kernel command line.
    pub cmdline: PathBuf,
    /// Where `measured-cfg` and `insecure-cfg` go: a tmpfs in every guest.
    pub run: PathBuf,
}

impl Paths {
    /// The usual places below `root`.
    #[must_use]
    pub fn below(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref();
        Self {
            block_class: root.join("sys/class/block"),
            dev: root.join("dev"),
            platform_devices: root.join("sys/devices/platform"),
            cpuinfo: root.join("proc/cpuinfo"),
            cmdline: root.join("proc/cmdline"),
            run: root.join("run"),
        }
    }
}
