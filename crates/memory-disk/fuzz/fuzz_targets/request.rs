//! Invariant: whatever a guest's memory holds, a request changes nothing outside of its writable
//! buffers, ends, and leaves the image as it is.
#![cfg_attr(fuzzing, no_main)]

use std::sync::{LazyLock, Mutex};

use memory_disk::device::{Disk, Outcome, QUEUE_ENTRIES, answer};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// The input is the guest's whole memory, from address 0; what is missing is zero.
const MEMORY_BYTES: usize = 1 << 16;
const TABLE: u32 = 0;
const AVAILABLE: u32 = 0x800;
const USED: u32 = 0xf000;
const IMAGE_BYTES: usize = 8 * 512;

static STATE: LazyLock<Mutex<(GuestMemoryMmap<()>, Disk)>> = LazyLock::new(|| {
    let image: Vec<u8> = (0..IMAGE_BYTES).map(|n| (n % 255) as u8 + 1).collect();
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]);
    Mutex::new((memory.expect("a mapping"), Disk::new(&image).expect("locked memory")))
});

fuzzing::target!(|input: &[u8]| {
    let mut state = STATE.lock().expect("one thread");
    let (memory, disk) = &mut *state;
    let mut before = input.to_vec();
    before.resize(MEMORY_BYTES, 0);
    memory.write_slice(&before, GuestAddress(0)).expect("the whole memory");

    let mut queue = Queue::new(QUEUE_ENTRIES).expect("a power of two");
    queue.set_size(QUEUE_ENTRIES);
    queue.set_desc_table_address(Some(TABLE), Some(0));
    queue.set_avail_ring_address(Some(AVAILABLE), Some(0));
    queue.set_used_ring_address(Some(USED), Some(0));
    queue.set_ready(true);

    let mut after = vec![0; MEMORY_BYTES];
    let mut requests = 0;
    while let Some(chain) = queue.iter(&*memory).ok().and_then(|mut chains| chains.next()) {
        requests += 1;
        // A request may write to the ring it came from; the fuzzer shall not follow it forever.
        if requests > 4 {
            break;
        }
        let writable: Vec<_> = chain
            .clone()
            .writable()
            .map(|buffer| (buffer.addr().0, u64::from(buffer.len())))
            .collect();
        let answer = answer(chain, disk);
        assert!(
            u64::from(answer.used_bytes) <= writable.iter().map(|(_, bytes)| bytes).sum::<u64>()
        );
        if let Outcome::Read { bytes } = answer.outcome {
            assert!(bytes <= IMAGE_BYTES as u64 && u64::from(answer.used_bytes) == bytes + 1);
        }
        memory.read_slice(&mut after, GuestAddress(0)).expect("the whole memory");
        for (address, (old, new)) in before.iter().zip(&after).enumerate() {
            let address = address as u64;
            assert!(
                old == new
                    || writable
                        .iter()
                        .any(|(start, bytes)| (*start..start.saturating_add(*bytes))
                            .contains(&address)),
                "wrote to {address:#x}"
            );
        }
        before.copy_from_slice(&after);
    }
});
