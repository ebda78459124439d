use virtio_bindings::virtio_ring::{VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};
use virtio_queue::desc::RawDescriptor;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::mock::MockSplitQueue;
use virtio_queue::{Queue, QueueOwnedT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::*;

const NEXT: u16 = VRING_DESC_F_NEXT as u16;
const WRITE: u16 = VRING_DESC_F_WRITE as u16;
const INDIRECT: u16 = VRING_DESC_F_INDIRECT as u16;

const MEMORY_BYTES: usize = 1 << 20;
const HEADER: u64 = 0x1_0000;
const DATA: u64 = 0x2_0000;
const STATUS: u64 = 0x3_0000;
const UNTOUCHED: u8 = 0xee;

/// Address, length, flags and next of a descriptor.
type Entry = (u64, u32, u16, u16);

/// A header with a buffer behind it, one with none, and a status that ends a chain.
const HEAD: Entry = (HEADER, 16, NEXT, 1);
const LAST: Entry = (HEADER, 16, 0, 0);
const DONE: Entry = (STATUS, 1, WRITE, 0);

/// Room for data, between header and status.
const fn data(address: u64, bytes: u32) -> Entry {
    (address, bytes, NEXT | WRITE, 2)
}

/// A status that leads to another buffer.
const fn status_then(next: u16) -> Entry {
    (STATUS, 1, NEXT | WRITE, next)
}

/// A guest with a header at [`HEADER`] and room for data and status.
struct Guest {
    memory: GuestMemoryMmap<()>,
    disk: Disk,
}

impl Guest {
    fn new(kind: u32, sector: u64) -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).unwrap();
        memory.write_slice(&vec![UNTOUCHED; 0x2_0000], GuestAddress(DATA)).unwrap();
        let mut header = kind.to_le_bytes().to_vec();
        header.extend([0; 4]);
        header.extend(sector.to_le_bytes());
        memory.write_slice(&header, GuestAddress(HEADER)).unwrap();
        Self { memory, disk: Disk::new(&image()).unwrap() }
    }

    /// Puts `table` into the queue exactly as it is and serves the chain at its start.
    fn ask(&mut self, table: &[Entry]) -> Answer {
        let queue = MockSplitQueue::new(&self.memory, QUEUE_ENTRIES);
        for (index, (address, bytes, flags, next)) in table.iter().enumerate() {
            let descriptor = Descriptor::new(*address, *bytes, *flags, *next);
            queue.desc_table().store(index as u16, RawDescriptor::from(descriptor)).unwrap();
        }
        queue.avail().ring().ref_at(0).unwrap().store(0);
        queue.avail().idx().store(1);
        let mut device: Queue = queue.create_queue().unwrap();
        let chain = device.iter(&self.memory).unwrap().next().unwrap();
        answer(chain, &mut self.disk)
    }

    /// The usual three buffers.
    fn request(&mut self, data_bytes: u32) -> Answer {
        self.ask(&[HEAD, data(DATA, data_bytes), DONE])
    }

    fn bytes<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read_slice(&mut bytes, GuestAddress(address)).unwrap();
        bytes
    }

    fn status(&self) -> u8 {
        self.bytes::<1>(STATUS)[0]
    }
}

fn image() -> Vec<u8> {
    (0..2048_u32).map(|n| (n / 7) as u8).collect()
}

#[test]
fn a_read_gives_the_exact_bytes_and_counts() {
    let mut guest = Guest::new(0, 1);
    let answer = guest.request(1024);
    assert_eq!(answer.outcome, Outcome::Read { bytes: 1024 });
    assert_eq!(answer.used_bytes, 1025);
    assert_eq!(guest.status(), 0);
    assert_eq!(guest.bytes::<1024>(DATA), image()[512..1536]);
    assert_eq!(guest.bytes::<1>(DATA + 1024), [UNTOUCHED]);
    assert!(!guest.disk.is_complete());

    let mut guest = Guest::new(0, 0);
    guest.request(2048);
    assert!(guest.disk.is_complete());
}

#[test]
fn how_buffers_are_cut_has_no_meaning() {
    let mut guest = Guest::new(0, 0);
    // The header in three parts, data in odd ones, the status at the end of the last.
    let answer = guest.ask(&[
        (HEADER, 5, NEXT, 1),
        (HEADER + 5, 0, NEXT, 2),
        (HEADER + 5, 11, NEXT, 3),
        (DATA, 7, NEXT | WRITE, 4),
        (DATA + 7, 506, NEXT | WRITE, 5),
        (0, 0, WRITE, 0),
    ]);
    assert_eq!(answer.outcome, Outcome::Read { bytes: 512 });
    assert_eq!(answer.used_bytes, 513);
    assert_eq!(guest.bytes::<512>(DATA), image()[..512]);
    assert_eq!(guest.bytes::<2>(DATA + 512), [0, UNTOUCHED]);
}

#[test]
fn the_serial_is_padded_and_cut_to_fit() {
    let mut guest = Guest::new(8, 0);
    let answer = guest.request(20);
    assert_eq!(answer.outcome, Outcome::Served);
    assert_eq!(answer.used_bytes, 21);
    assert_eq!(&guest.bytes::<20>(DATA), b"imagepuller\0\0\0\0\0\0\0\0\0");
    let mut guest = Guest::new(8, 0);
    assert_eq!(guest.request(5).used_bytes, 6);
    assert_eq!(&guest.bytes::<5>(DATA), b"image");
    let mut guest = Guest::new(8, 0);
    guest.request(30);
    assert_eq!(guest.bytes::<1>(DATA + 20), [UNTOUCHED]);
    assert_eq!(guest.status(), 0);
}

#[test]
fn a_flush_has_nothing_to_do() {
    let mut guest = Guest::new(4, 0);
    let answer = guest.ask(&[HEAD, DONE]);
    assert_eq!((answer.outcome, answer.used_bytes), (Outcome::Served, 1));
    assert_eq!(guest.status(), 0);
}

#[test]
fn what_is_not_on_the_disk_is_refused() {
    for (sector, bytes) in [
        (4, 512),
        (3, 1024),
        (0, 2560),
        (u64::MAX, 512),
        (1 << 55, 512),
        (u64::MAX / 512 + 1, 512),
        (0, 511),
        (0, 1),
    ] {
        let mut guest = Guest::new(0, sector);
        let answer = guest.request(bytes);
        assert_eq!(answer.outcome, Outcome::Refused, "{sector} {bytes}");
        assert_eq!(answer.used_bytes, 0);
        assert_eq!(guest.status(), 1);
        assert_eq!(guest.bytes::<1>(DATA), [UNTOUCHED]);
    }
}

#[test]
fn writes_and_unknown_types_are_refused_and_change_nothing() {
    for (kind, status) in
        [(1, 1), (2, 2), (11, 2), (13, 2), (14, 2), (0x8000_0000, 2), (u32::MAX, 2)]
    {
        let mut guest = Guest::new(kind, 0);
        let answer = guest.ask(&[HEAD, (DATA, 512, NEXT, 2), DONE]);
        assert_eq!(answer.outcome, Outcome::Refused, "{kind}");
        assert_eq!(guest.status(), status, "{kind}");
        assert_eq!(guest.disk.read(0, 2048).unwrap(), image());
    }
}

#[test]
fn a_dark_disk_answers_errors_and_leaks_nothing() {
    let mut guest = Guest::new(0, 0);
    guest.disk.darken();
    assert_eq!(guest.request(512).outcome, Outcome::Refused);
    assert_eq!(guest.status(), 1);
    assert_eq!(guest.bytes::<1>(DATA), [UNTOUCHED]);
}

#[test]
fn a_chain_that_is_no_request_is_answered_where_it_can_be() {
    const END: u64 = MEMORY_BYTES as u64;
    // What is wrong, and whether there is room for a status that says so.
    let cases: &[(&str, &[Entry], bool)] = &[
        ("short header", &[(HEADER, 15, NEXT, 1), DONE], true),
        ("no header", &[DONE], true),
        ("header outside", &[(END, 16, NEXT, 1), DONE], true),
        ("header across", &[(END - 8, 16, NEXT, 1), DONE], true),
        ("data outside", &[HEAD, data(END - 100, 512), DONE], true),
        ("data overflow", &[HEAD, data(u64::MAX, 512), DONE], true),
        ("overflow", &[HEAD, (u64::MAX, 513, WRITE, 2)], false),
        ("status outside", &[HEAD, (END, 1, WRITE, 0)], false),
        ("no status", &[LAST], false),
        ("empty status", &[HEAD, (STATUS, 0, WRITE, 0)], false),
        ("readable last", &[(STATUS, 1, NEXT | WRITE, 1), LAST], false),
        ("next outside", &[HEAD, status_then(QUEUE_ENTRIES)], false),
        ("readable loop", &[(HEADER, 16, NEXT, 0)], false),
        ("writable loop", &[HEAD, status_then(1)], false),
        ("over 4 GiB", &[HEAD, data(DATA, u32::MAX), DONE], false),
        ("indirect outside", &[(END, 32, INDIRECT, 0)], false),
        ("odd indirect", &[(DATA, 33, INDIRECT, 0)], false),
        ("huge indirect", &[(DATA, !15, INDIRECT, 0)], false),
    ];
    for (name, table, has_room) in cases {
        let mut guest = Guest::new(0, 0);
        let answer = guest.ask(table);
        assert_eq!(answer.outcome, Outcome::Malformed, "{name}");
        let status = if *has_room { 1 } else { UNTOUCHED };
        assert_eq!(guest.status(), status, "{name}");
        assert!(!guest.disk.is_complete(), "{name}");
        assert!(u64::from(answer.used_bytes) <= 513, "{name}");
    }
}

#[test]
fn an_indirect_chain_is_bounded_like_any_other() {
    // 40,000 descriptors in a table of the guest's: the walk stops at the limit.
    let mut guest = Guest::new(0, 0);
    let table = 0x4_0000;
    for index in 0..40_000_u64 {
        let descriptor = Descriptor::new(HEADER, 0, NEXT, index as u16 + 1);
        guest.memory.write_obj(descriptor, GuestAddress(table + index * 16)).unwrap();
    }
    let answer = guest.ask(&[(table, 40_000 * 16, INDIRECT, 0)]);
    assert_eq!(answer.outcome, Outcome::Malformed);
    // A table within a table.
    let nested = Descriptor::new(table, 16, INDIRECT, 0);
    guest.memory.write_obj(nested, GuestAddress(table)).unwrap();
    let answer = guest.ask(&[(table, 16, INDIRECT, 0)]);
    assert_eq!(answer.outcome, Outcome::Malformed);
}

#[test]
fn the_configuration_tells_the_size() {
    let disk = Disk::new(&image()).unwrap();
    let space = configuration(&disk, 0, 60).unwrap();
    assert_eq!(space[..8], 4_u64.to_le_bytes());
    assert_eq!(space[12..16], 126_u32.to_le_bytes());
    assert_eq!(space[20..24], 512_u32.to_le_bytes());
    assert_eq!(space[34..36], 1_u16.to_le_bytes());
    assert_eq!(configuration(&disk, 4, 4).unwrap(), [0; 4]);
    for (offset, bytes) in [(0, 257), (256, 1), (usize::MAX, 1), (1, usize::MAX)] {
        assert!(configuration(&disk, offset, bytes).is_none());
    }
}
