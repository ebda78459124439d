//! Where the kernel's interfaces and the results are.

use std::path::{Path, PathBuf};

/// The places this program reads and writes; trusted, since only the guest's kernel and init make
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The block devices in sysfs, without partitions.
    pub block: PathBuf,
    /// The block devices in sysfs by number.
    pub numbers: PathBuf,
    /// Device nodes.
    pub dev: PathBuf,
    /// Platform devices in sysfs.
    pub platform_devices: PathBuf,
    /// What the kernel knows about the processors.
    pub cpuinfo: PathBuf,
    /// The kernel command line.
    pub cmdline: PathBuf,
    /// Where absolute paths begin that the settings name.
    pub root: PathBuf,
    /// The settings.
    pub settings: PathBuf,
    /// The kernel's log.
    pub kmsg: PathBuf,
    /// All of sysfs.
    pub sysfs: PathBuf,
    /// Where `measured-cfg` and `insecure-cfg` go: a tmpfs in every guest.
    pub run: PathBuf,
    /// Where Kata's agent leaves files for its companions.
    pub kata_agent: PathBuf,
}

impl Paths {
    /// The usual places below `root`.
    #[must_use]
    pub fn below(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref();
        Self {
            block: root.join("sys/block"),
            numbers: root.join("sys/dev/block"),
            dev: root.join("dev"),
            platform_devices: root.join("sys/devices/platform"),
            cpuinfo: root.join("proc/cpuinfo"),
            cmdline: root.join("proc/cmdline"),
            root: root.to_owned(),
            settings: root.join("etc/initdata-processor.toml"),
            kmsg: root.join("dev/kmsg"),
            sysfs: root.join("sys"),
            run: root.join("run"),
            kata_agent: root.join("run/confidential-containers"),
        }
    }
}
