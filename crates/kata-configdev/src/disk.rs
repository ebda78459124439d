//! The configuration image as a read-only disk on QEMU's command line.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use config_image::Magic;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use crate::Error;

/// The disk's serial, its device id and the name of its block node.
///
/// Guests with udev see it as `/dev/disk/by-id/virtio-imagepuller`. virtio-blk cuts serials to 20 bytes.
pub const NAME: &str = "imagepuller";
const _: () = assert!(NAME.len() <= 20);

/// The id of the fd set that carries the disk.
///
/// Kata's Rust runtime numbers its own sets from 1. It also checks the sets whose `opaque` begins with `kata-block:`,
/// which [`NAME`] does not.
const FD_SET: u32 = 1_000_000;

/// The virtio-blk device that a machine type can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    driver: &'static str,
    bus: Option<&'static str>,
}

impl Device {
    /// The device for `machine`, the name of a QEMU machine type with or without its version; `None` for a type that
    /// is not known to have one.
    ///
    /// PCI devices name the root bus: left to itself QEMU takes the first bus with a free slot, which on a NUMA host may
    /// be an expander bridge for passed-through devices.
    #[must_use]
    pub fn of_machine(machine: &str) -> Option<Self> {
        let named = |name: &str| {
            machine
                .strip_prefix(name)
                .is_some_and(|version| version.is_empty() || version.starts_with('-'))
        };
        let (driver, bus) = if named("q35") || named("pc-q35") || named("virt") {
            ("virtio-blk-pci", Some("pcie.0"))
        } else if named("pc") || named("pseries") {
            ("virtio-blk-pci", Some("pci.0"))
        } else if named("microvm") {
            ("virtio-blk-device", None)
        } else if named("s390-ccw-virtio") {
            ("virtio-blk-ccw", None)
        } else {
            return None;
        };
        Some(Self { driver, bus })
    }

    /// The value of `-device`.
    ///
    /// The properties are those of Kata's own virtio-blk disks. One queue: the guest reads a few sectors once, and QEMU
    /// would otherwise make one queue per virtual CPU. Neither `iommu_platform` nor `disable-legacy` is given: with
    /// `confidential-guest-support` QEMU (6.0 and later) itself turns both on for every virtio device, and without it the guest may
    /// use the disk as it uses Kata's own.
    fn properties(self) -> String {
        let bus = self
            .bus
            .map(|bus| format!(",bus={bus}"))
            .unwrap_or_default();
        format!(
            "{},id={NAME},drive={NAME},serial={NAME},config-wce=off,num-queues=1{bus}",
            self.driver
        )
    }
}

/// A configuration image in memory, ready to be handed to QEMU.
#[derive(Debug)]
pub struct Disk {
    image: OwnedFd,
    device: Device,
}

impl Disk {
    /// Packs `document` into a sealed anonymous file. The encoder's copy is zeroed; the compressor's own window is
    /// not, and goes with the rest of this process's memory at the `exec`.
    ///
    /// # Errors
    ///
    /// [`Error::Pack`], [`Error::Memory`].
    pub fn pack(document: &[u8], device: Device) -> Result<Self, Error> {
        let image = config_image::encode(Magic::IMAGEPULLER, document).map_err(Error::Pack)?;
        let image = linux_sys::memfd::sealed(c"imagepuller", &image).map_err(Error::Memory)?;
        Ok(Self { image, device })
    }

    /// The arguments that attach the disk; they belong behind all others.
    ///
    /// Kata's devices have no fixed slots, so a device before them would move their PCI addresses. Nothing in the
    /// values needs QEMU's doubled commas: they are constants and numbers.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let descriptor = self.image.as_raw_fd();
        [
            "-add-fd".into(),
            format!("fd={descriptor},set={FD_SET},opaque={NAME}"),
            "-blockdev".into(),
            format!(
                "driver=raw,node-name={NAME},read-only=on,\
                 file.driver=file,file.filename=/dev/fdset/{FD_SET},file.read-only=on"
            ),
            "-device".into(),
            self.device.properties(),
        ]
        .map(OsString::from)
        .into()
    }

    /// Lets the image's descriptor, and no other, pass an `exec`.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`].
    pub fn keep_across_exec(&self) -> Result<(), Error> {
        let image = self.image.as_fd();
        let flags = fcntl_getfd(image).map_err(|errno| Error::Memory(errno.into()))?;
        fcntl_setfd(image, flags - FdFlags::CLOEXEC).map_err(|errno| Error::Memory(errno.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_types_get_the_device_they_can_hold() {
        let cases = [
            ("q35", Some(("virtio-blk-pci", Some("pcie.0")))),
            ("pc-q35-7.2", Some(("virtio-blk-pci", Some("pcie.0")))),
            ("virt", Some(("virtio-blk-pci", Some("pcie.0")))),
            ("virt-9.0", Some(("virtio-blk-pci", Some("pcie.0")))),
            ("pc", Some(("virtio-blk-pci", Some("pci.0")))),
            ("pc-i440fx-7.2", Some(("virtio-blk-pci", Some("pci.0")))),
            ("pseries", Some(("virtio-blk-pci", Some("pci.0")))),
            ("microvm", Some(("virtio-blk-device", None))),
            ("s390-ccw-virtio", Some(("virtio-blk-ccw", None))),
            ("s390-ccw-virtio-9.1", Some(("virtio-blk-ccw", None))),
            ("none", None),
            ("isapc", None),
            ("pcx", None),
            ("", None),
        ];
        for (machine, expected) in cases {
            let device = Device::of_machine(machine).map(|device| (device.driver, device.bus));
            assert_eq!(device, expected, "{machine:?}");
        }
    }

    #[test]
    fn arguments_are_exactly_these() {
        let device = Device::of_machine("q35").unwrap();
        let disk = Disk::pack(b"[registries]\n", device).unwrap();
        let arguments = disk.arguments();
        let descriptor = disk.image.as_raw_fd();
        assert_eq!(
            arguments,
            [
                "-add-fd",
                &format!("fd={descriptor},set=1000000,opaque=imagepuller"),
                "-blockdev",
                "driver=raw,node-name=imagepuller,read-only=on,\
                 file.driver=file,file.filename=/dev/fdset/1000000,file.read-only=on",
                "-device",
                "virtio-blk-pci,id=imagepuller,drive=imagepuller,serial=imagepuller,config-wce=off,num-queues=1,bus=pcie.0",
            ]
        );
    }
}
