//! One request of the guest: a chain of buffers in, data and a status byte out.
//!
//! Virtio 1.2, 5.2.6. Everything here was written by the guest and may change while it is looked
//! at, so each value is read once. Whatever it says, at most [`MAX_BUFFERS`] buffers are looked at
//! and at most the image is copied.

use std::ops::Deref;

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP,
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
};
use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress, GuestMemory};

use super::{Disk, QUEUE_ENTRIES, SERIAL};

/// The most buffers of one request: what a driver may use at most, as many as the queue has
/// entries.
pub const MAX_BUFFERS: usize = QUEUE_ENTRIES as usize;

/// Type, a reserved word, and the first sector; little endian.
const HEADER_BYTES: usize = 16;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How many bytes were written without a gap from the start of the writable buffers on, for the
    /// used ring.
    pub used_bytes: u32,
    /// What was done.
    pub outcome: Outcome,
}

/// What was done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A part of the image was read.
    Read {
        /// How many bytes.
        bytes: u64,
    },
    /// A request without data of the image: the serial, or a flush.
    Served,
    /// The guest was answered an error: a write, a read beyond the end or of a dark disk, an
    /// unknown type.
    Refused,
    /// The chain is no request; where it has room for a status, that says so.
    Malformed,
}

/// Serves the request in `chain` from `disk`. The status is written last, after all data.
pub fn answer<M>(chain: DescriptorChain<M>, disk: &mut Disk) -> Answer
where
    M: Clone + Deref,
    M::Target: GuestMemory,
{
    let memory = chain.clone();
    let memory = memory.memory();
    let Some((request, status)) = collect(chain).and_then(Buffers::split_status) else {
        return Answer { used_bytes: 0, outcome: Outcome::Malformed };
    };
    let (code, written, outcome) = serve(memory, &request, disk);
    let has_status = memory.write_slice(&[code], status).is_ok();
    let is_gapless = written == request.writable_bytes();
    Answer {
        // A chain has less than 4 GiB, which the iterator over its buffers sees to.
        used_bytes: u32::try_from(written + u64::from(has_status && is_gapless))
            .unwrap_or(u32::MAX),
        outcome: if has_status { outcome } else { Outcome::Malformed },
    }
}

/// Does what a request asks for: the status, how many bytes were written, and the outcome.
fn serve<M: GuestMemory + ?Sized>(
    memory: &M,
    request: &Buffers,
    disk: &mut Disk,
) -> (u8, u64, Outcome) {
    let refused = |code: u32, outcome| (code as u8, 0, outcome);
    let Some((kind, sector)) = request.header(memory) else {
        return refused(VIRTIO_BLK_S_IOERR, Outcome::Malformed);
    };
    let room = request.writable_bytes();
    match kind {
        VIRTIO_BLK_T_IN => {
            let Some(data) = disk.read(sector, room) else {
                return refused(VIRTIO_BLK_S_IOERR, Outcome::Refused);
            };
            match request.write(memory, data) {
                Ok(bytes) => {
                    disk.mark_read(sector, bytes);
                    (VIRTIO_BLK_S_OK as u8, bytes, Outcome::Read { bytes })
                }
                Err(written) => (VIRTIO_BLK_S_IOERR as u8, written, Outcome::Malformed),
            }
        }
        VIRTIO_BLK_T_GET_ID => {
            let mut serial = [0; VIRTIO_BLK_ID_BYTES as usize];
            for (to, from) in serial.iter_mut().zip(SERIAL.bytes()) {
                *to = from;
            }
            let fits = serial.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            match request.write(memory, &serial[..fits]) {
                Ok(written) => (VIRTIO_BLK_S_OK as u8, written, Outcome::Served),
                Err(written) => (VIRTIO_BLK_S_IOERR as u8, written, Outcome::Malformed),
            }
        }
        // There is nothing that could be written back.
        VIRTIO_BLK_T_FLUSH => (VIRTIO_BLK_S_OK as u8, 0, Outcome::Served),
        VIRTIO_BLK_T_OUT => refused(VIRTIO_BLK_S_IOERR, Outcome::Refused),
        _ => refused(VIRTIO_BLK_S_UNSUPP, Outcome::Refused),
    }
}

/// A buffer in the guest's memory.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    address: GuestAddress,
    bytes: u32,
}

/// The buffers of a request; how they are cut has no meaning.
#[derive(Debug, Default)]
struct Buffers {
    readable: Vec<Buffer>,
    writable: Vec<Buffer>,
}

/// Reads the chain's descriptors. Nothing where it is too long, leads nowhere, or has a readable
/// buffer after a writable one.
fn collect<M>(chain: DescriptorChain<M>) -> Option<Buffers>
where
    M: Deref,
    M::Target: GuestMemory,
{
    let mut buffers = Buffers::default();
    // The iterator ends without a word where a descriptor cannot be read; then the one before
    // announces a next.
    let mut has_next = true;
    for (number, descriptor) in chain.enumerate() {
        if number == MAX_BUFFERS {
            return None;
        }
        has_next = descriptor.has_next();
        let buffer = Buffer { address: descriptor.addr(), bytes: descriptor.len() };
        if descriptor.is_write_only() {
            buffers.writable.push(buffer);
        } else if buffers.writable.is_empty() {
            buffers.readable.push(buffer);
        } else {
            return None;
        }
    }
    (!has_next).then_some(buffers)
}

impl Buffers {
    /// Takes the last writable byte off, which is for the status. Nothing where there is none.
    fn split_status(mut self) -> Option<(Self, GuestAddress)> {
        while let Some(last) = self.writable.last_mut() {
            if let Some(before) = last.bytes.checked_sub(1) {
                last.bytes = before;
                let status = last.address.0.checked_add(u64::from(before))?;
                return Some((self, GuestAddress(status)));
            }
            self.writable.pop();
        }
        None
    }

    fn writable_bytes(&self) -> u64 {
        self.writable.iter().map(|buffer| u64::from(buffer.bytes)).sum()
    }

    /// The request's type and first sector.
    fn header<M: GuestMemory + ?Sized>(&self, memory: &M) -> Option<(u32, u64)> {
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        for buffer in &self.readable {
            let part = &mut header[filled..];
            let part_bytes = part.len().min(buffer.bytes as usize);
            memory.read_slice(&mut part[..part_bytes], buffer.address).ok()?;
            filled += part_bytes;
        }
        let (kind, rest) = header.split_first_chunk()?;
        let sector = rest.last_chunk()?;
        (filled == HEADER_BYTES).then(|| (u32::from_le_bytes(*kind), u64::from_le_bytes(*sector)))
    }

    /// Copies `data`, as far as there is room; answers how much that was, also where the guest's
    /// memory ends before.
    fn write<M: GuestMemory + ?Sized>(&self, memory: &M, mut data: &[u8]) -> Result<u64, u64> {
        let mut written = 0;
        for buffer in &self.writable {
            let (now, later) = data.split_at(data.len().min(buffer.bytes as usize));
            memory.write_slice(now, buffer.address).map_err(|_| written)?;
            written += now.len() as u64;
            data = later;
        }
        Ok(written)
    }
}
