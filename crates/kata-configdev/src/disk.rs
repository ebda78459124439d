//! The configuration image as a read-only disk on QEMU's command line.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

use crate::SandboxError;
use crate::shared_image::record::Hold;

/// The disk's serial, its device id and the name of its block node.
///
/// Guests with udev see it as `/dev/disk/by-id/virtio-imagepuller`. virtio-blk cuts serials to 20
/// bytes.
pub const NAME: &str = "imagepuller";
const _: () = assert!(NAME.len() <= 20);

/// The id of the fd set that carries the disk.
///
/// Kata's Rust runtime numbers its own sets from 1. It also checks the sets whose `opaque` begins
/// with `kata-block:`, which [`NAME`] does not.
const FD_SET: u32 = 1_000_000;

/// The virtio-blk device that a machine type can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    driver: &'static str,
    bus: Option<&'static str>,
}

impl Device {
    /// The names of the machine types that are known to have a virtio-blk device, without their
    /// versions.
    pub const FAMILIES: [&str; 6] = ["q35", "pc", "virt", "pseries", "microvm", "s390-ccw-virtio"];

    /// The one of [`Device::FAMILIES`] that `machine` is a version of. QEMU's `pc-q35-7.2` is a
    /// q35.
    #[must_use]
    pub fn family(machine: &str) -> Option<&'static str> {
        let is_version_of = |name: &str| {
            machine
                .strip_prefix(name)
                .is_some_and(|version| version.is_empty() || version.starts_with('-'))
        };
        if is_version_of("pc-q35") {
            return Some("q35");
        }
        Self::FAMILIES.into_iter().find(|name| is_version_of(name))
    }

    /// The device for `machine`, the name of a QEMU machine type with or without its version;
    /// `None` for a type that is not known to have one.
    ///
    /// PCI devices name the root bus: left to itself QEMU takes the first bus with a free slot,
    /// which on a NUMA host may be an expander bridge for passed-through devices.
    #[must_use]
    pub fn of_machine(machine: &str) -> Option<Self> {
        let (driver, bus) = match Self::family(machine)? {
            "q35" | "virt" => ("virtio-blk-pci", Some("pcie.0")),
            "pc" | "pseries" => ("virtio-blk-pci", Some("pci.0")),
            "microvm" => ("virtio-blk-device", None),
            "s390-ccw-virtio" => ("virtio-blk-ccw", None),
            _ => return None,
        };
        Some(Self { driver, bus })
    }

    /// The value of `-device`.
    ///
    /// The properties are those of Kata's own virtio-blk disks. Neither `iommu_platform` nor
    /// `disable-legacy` is given: with `confidential-guest-support` QEMU (6.0
    /// and later) itself turns both on for every virtio device, and without it the guest may use
    /// the disk as it uses Kata's own. One queue: the guest reads a few sectors once, and QEMU
    /// would otherwise make one for each virtual CPU.
    fn properties(self) -> String {
        let bus = self.bus.map(|bus| format!(",bus={bus}")).unwrap_or_default();
        format!(
            "{},id={NAME},drive={NAME},serial={NAME},config-wce=off,num-queues=1{bus}",
            self.driver
        )
    }
}

/// A configuration image, ready to be handed to QEMU.
#[derive(Debug)]
pub struct Disk {
    source: Source,
    device: Device,
    hold: Option<Hold>,
}

#[derive(Debug)]
enum Source {
    Memory(OwnedFd),
    File(PathBuf),
}

impl Disk {
    /// The disk over a copy of `image` in a sealed anonymous file.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Memory`].
    pub fn in_memory(image: &[u8], device: Device) -> Result<Self, SandboxError> {
        let image =
            linux_sys::memfd::sealed(c"imagepuller", image).map_err(SandboxError::Memory)?;
        Ok(Self::new(Source::Memory(image), device))
    }

    /// The disk over the image in the file `path`.
    #[must_use]
    pub fn of_file(path: PathBuf, device: Device) -> Self {
        Self::new(Source::File(path), device)
    }

    fn new(source: Source, device: Device) -> Self {
        Self { source, device, hold: None }
    }

    /// The same, with the lock that tells that its hypervisor lives.
    #[must_use]
    pub fn held_by(self, hold: Option<Hold>) -> Self {
        Self { hold, ..self }
    }

    /// The arguments that attach the disk; they belong behind all others.
    ///
    /// Kata's devices have no fixed slots, so a device before them would move their PCI addresses.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::with_capacity(6);
        let file = match &self.source {
            Source::Memory(image) => {
                let descriptor = image.as_raw_fd();
                arguments.push("-add-fd".into());
                arguments.push(format!("fd={descriptor},set={FD_SET},opaque={NAME}").into());
                format!("/dev/fdset/{FD_SET}").into_bytes()
            }
            Source::File(path) => escaped(path),
        };
        let mut node =
            format!("driver=raw,node-name={NAME},read-only=on,file.driver=file,file.filename=")
                .into_bytes();
        node.extend(file);
        node.extend(b",file.read-only=on");
        arguments.push("-blockdev".into());
        arguments.push(OsString::from_vec(node));
        arguments.push("-device".into());
        arguments.push(self.device.properties().into());
        arguments
    }

    /// Lets the image's descriptor, or the lock beside its file, and no other pass an `exec`.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Memory`].
    pub fn keep_across_exec(&self) -> Result<(), SandboxError> {
        let descriptor = match (&self.source, &self.hold) {
            (Source::Memory(image), _) => image.as_fd(),
            (Source::File(_), Some(hold)) => hold.as_fd(),
            (Source::File(_), None) => return Ok(()),
        };
        pass_on(descriptor).map_err(|errno| SandboxError::Memory(errno.into()))
    }
}

/// Lets a descriptor pass an `exec`.
fn pass_on(file: impl AsFd) -> Result<(), Errno> {
    let flags = fcntl_getfd(&file)?;
    fcntl_setfd(file, flags - FdFlags::CLOEXEC)
}

/// A path as the value of an option: QEMU reads a doubled comma as one.
fn escaped(path: &Path) -> Vec<u8> {
    let mut value = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        value.push(*byte);
        if *byte == b',' {
            value.push(b',');
        }
    }
    value
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
        let disk = Disk::in_memory(&[0; 512], device).unwrap();
        let arguments = disk.arguments();
        let Source::Memory(image) = &disk.source else { unreachable!() };
        let descriptor = image.as_raw_fd();
        assert_eq!(
            arguments,
            [
                "-add-fd",
                &format!("fd={descriptor},set=1000000,opaque=imagepuller"),
                "-blockdev",
                "driver=raw,node-name=imagepuller,read-only=on,\
                 file.driver=file,file.filename=/dev/fdset/1000000,file.read-only=on",
                "-device",
                "virtio-blk-pci,id=imagepuller,drive=imagepuller,serial=imagepuller,\
                 config-wce=off,num-queues=1,bus=pcie.0",
            ]
        );
    }

    #[test]
    fn a_file_is_named_with_doubled_commas_and_needs_no_descriptor() {
        let device = Device::of_machine("microvm").unwrap();
        let disk = Disk::of_file("/run/a,b/image".into(), device);
        disk.keep_across_exec().unwrap();
        assert_eq!(
            disk.arguments(),
            [
                "-blockdev",
                "driver=raw,node-name=imagepuller,read-only=on,\
                 file.driver=file,file.filename=/run/a,,b/image,file.read-only=on",
                "-device",
                "virtio-blk-device,id=imagepuller,drive=imagepuller,serial=imagepuller,\
                 config-wce=off,num-queues=1",
            ]
        );
    }
}
