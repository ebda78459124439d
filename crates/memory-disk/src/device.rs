//! The disk as the guest sees it, without any transport.
//!
//! - [`Disk`]: the content in locked memory, and what of it was read.
//! - [`answer`]: one request.
//! - [`FEATURES`], [`configuration`]: what a driver is told about the disk.

mod disk;
mod request;

pub use disk::{Disk, MAX_IMAGE_BYTES, SECTOR_BYTES};
pub use request::{Answer, MAX_BUFFERS, Outcome, answer};

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_ID_BYTES,
};
use virtio_bindings::virtio_config::{VIRTIO_F_ACCESS_PLATFORM, VIRTIO_F_VERSION_1};

/// The serial that the guest reads. A hint only: the magic in the image decides.
pub const SERIAL: &str = "imagepuller";

const _: () = assert!(SERIAL.len() <= VIRTIO_BLK_ID_BYTES as usize);

/// Entries of a queue at most; what QEMU asks for by default.
pub const QUEUE_ENTRIES: u16 = 128;

/// What is offered to a driver: a modern device, read-only, with the sizes of [`configuration`];
/// and that the platform decides how memory is reached, without which a guest with bounce buffers
/// cannot use it.
pub const FEATURES: u64 = 1 << VIRTIO_F_VERSION_1
    | 1 << VIRTIO_F_ACCESS_PLATFORM
    | 1 << VIRTIO_BLK_F_RO
    | 1 << VIRTIO_BLK_F_BLK_SIZE
    | 1 << VIRTIO_BLK_F_SEG_MAX;

/// The longest configuration space that vhost-user can carry.
const CONFIGURATION_BYTES: usize = 256;

/// `bytes` bytes from `offset` on of the device's configuration space (virtio 1.2, 5.2.4).
///
/// What is not ours to say is zero. Nothing where the range leaves the space.
#[must_use]
pub fn configuration(disk: &Disk, offset: usize, bytes: usize) -> Option<Vec<u8>> {
    // Of each request one buffer is for the header and one for the status.
    let segments = u32::from(QUEUE_ENTRIES) - 2;
    let mut space = [0; CONFIGURATION_BYTES];
    let mut put = |at: usize, value: &[u8]| space[at..at + value.len()].copy_from_slice(value);
    put(0, &disk.capacity_sectors().to_le_bytes());
    put(12, &segments.to_le_bytes());
    put(20, &(SECTOR_BYTES as u32).to_le_bytes());
    // Queues: one is enough. A VMM may prepare more.
    put(34, &1_u16.to_le_bytes());
    space.get(offset..offset.checked_add(bytes)?).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests;
