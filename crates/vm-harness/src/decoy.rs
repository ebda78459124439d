//! Disks that are none of ours, few or many: what else a host may attach.

use std::ffi::OsString;

use anyhow::Result;

use crate::Scratch;

/// Blank, random, one with a magic cut short, one that only looks like a header.
#[must_use]
pub fn contents() -> Vec<Vec<u8>> {
    let blank = vec![0; 1 << 20];
    let noise: Vec<u8> =
        (0..65_536_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let mut almost = b"imgpulle".to_vec();
    almost.resize(512, 0x41);
    let mut shifted = vec![0; 512];
    shifted.extend(b"imgpullr");
    shifted.resize(1024, 0);
    vec![blank, noise, almost, shifted]
}

/// What the disks are attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Kata's SCSI controller. Linux asks a read-only SCSI disk whether it is ready at every
    /// opening.
    Scsi,
    /// PCI, eight virtio-blk disks to a slot.
    VirtioBlk,
}

impl Bus {
    /// The device for the drive `id`, the `number`th of at most 64.
    fn device(self, id: &str, number: usize) -> String {
        match self {
            // Targets behind those that QEMU gives to the scenario's own disks.
            Self::Scsi => format!("scsi-hd,bus=scsi0.0,scsi-id={},drive={id}", 100 + number),
            // Slots behind those that QEMU gives to Kata's devices.
            Self::VirtioBlk => format!(
                "virtio-blk-pci,bus=pcie.0,addr={:#x}.{},multifunction=on,drive={id},share-rw=on",
                16 + number / 8,
                number % 8
            ),
        }
    }
}

/// QEMU's arguments for `count` such disks, at most 64; for [`crate::Scenario::arguments`].
///
/// # Errors
///
/// Where the contents cannot be written to `scratch`.
pub fn arguments(scratch: &Scratch, count: usize, bus: Bus) -> Result<Vec<OsString>> {
    let files = contents()
        .iter()
        .enumerate()
        .map(|(number, content)| scratch.write(&format!("decoy{number}.img"), content))
        .collect::<Result<Vec<_>>>()?;
    // Several disks may share one read-only file.
    let disks = files.iter().cycle().take(count).enumerate();
    Ok(disks
        .flat_map(|(number, file)| {
            let id = format!("decoy{number}");
            [
                "-drive".to_owned(),
                format!("id={id},file={},format=raw,if=none,readonly=on", file.display()),
                "-device".to_owned(),
                bus.device(&id, number),
            ]
        })
        .map(OsString::from)
        .collect())
}
