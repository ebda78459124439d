//! The wire: what a VMM asks of the device over vhost-user.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vhost::vhost_user::Backend as Channel;
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackend, VringMutex, VringT};
use virtio_queue::{Queue, QueueOwnedT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier,
};

use crate::Totals;
use crate::device::{Disk, FEATURES, Outcome, QUEUE_ENTRIES, answer, configuration};
use crate::watch::Progress;

/// Queues that a VMM may prepare. QEMU prepares one per virtual CPU unless told otherwise; the
/// guest uses one.
pub(crate) const MAX_QUEUES: usize = 32;

pub(crate) type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// The device between the threads that serve it and the one that watches.
pub(crate) struct Device {
    state: Mutex<State>,
    changed: Condvar,
    memory: Memory,
    /// Goes dark in the very request that completes the reading.
    is_dark_at_once: bool,
    /// Never used, but closing it would make QEMU complain about an unexpected end of file.
    channel: Mutex<Option<Channel>>,
}

/// What the lock protects.
pub(crate) struct State {
    pub(crate) disk: Disk,
    pub(crate) progress: Progress,
    pub(crate) served: Totals,
    /// How the connection ended, once it has.
    pub(crate) ended: Option<Result<(), String>>,
}

impl State {
    /// Zeroes the content.
    pub(crate) fn darken(&mut self) {
        self.disk.darken();
        self.progress.is_dark = true;
    }

    fn count(&mut self, outcome: Outcome) {
        self.served.requests += 1;
        match outcome {
            Outcome::Read { bytes } => {
                self.served.bytes += bytes;
                self.served.complete = self.disk.is_complete();
                self.progress.reads += 1;
                self.progress.last_read = Some(Instant::now());
                self.progress.is_complete = self.disk.is_complete();
            }
            Outcome::Served => {}
            Outcome::Refused | Outcome::Malformed => self.served.refused += 1,
        }
    }
}

impl Device {
    pub(crate) fn new(disk: Disk, memory: Memory, once: Option<Duration>) -> Self {
        Self {
            state: Mutex::new(State {
                disk,
                progress: Progress::default(),
                served: Totals::default(),
                ended: None,
            }),
            changed: Condvar::new(),
            memory,
            is_dark_at_once: once == Some(Duration::ZERO),
            channel: Mutex::new(None),
        }
    }

    /// The state, also where a thread panicked while it held it: everything in it is valid at all
    /// times.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something worth a look.
    pub(crate) fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match limit {
            Some(limit) => {
                self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Changes the state and wakes who waits.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Serves what waits in the queue, at most as much as it has entries. Answers whether there may
    /// be more.
    fn serve_some(&self, vring: &VringMutex) -> bool {
        let memory = self.memory.memory();
        // Held for the whole round: when the VMM stops the queue it gets its answer after the last
        // request's.
        let mut vring = vring.get_mut();
        let mut served = 0;
        while served < QUEUE_ENTRIES {
            // No error to report to: a guest that breaks its queue gets no answers.
            let Some(chain) = next(vring.get_queue_mut(), memory.clone()) else {
                break;
            };
            served += 1;
            let head = chain.head_index();
            let answer = self.change(|state| {
                let answer = answer(chain, &mut state.disk);
                state.count(answer.outcome);
                if self.is_dark_at_once && state.disk.is_complete() && !state.disk.is_dark() {
                    state.darken();
                }
                answer
            });
            // Fails where the guest named a head outside of the table; the entry is spent.
            let _ = vring.add_used(head, answer.used_bytes);
        }
        if served == 0 {
            return false;
        }
        let _ = vring.signal_used_queue();
        served == QUEUE_ENTRIES
    }
}

/// The next chain of the queue.
fn next<M>(queue: &mut Queue, memory: M) -> Option<virtio_queue::DescriptorChain<M>>
where
    M: Clone + Deref,
    M::Target: vm_memory::GuestMemory,
{
    queue.iter(memory).ok()?.next()
}

impl VhostUserBackend for Device {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        MAX_QUEUES
    }

    fn max_queue_size(&self) -> usize {
        usize::from(QUEUE_ENTRIES)
    }

    fn features(&self) -> u64 {
        FEATURES | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn acked_features(&self, _features: u64) {
        self.change(|state| state.progress.negotiated = Some(Instant::now()));
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        // QEMU takes platform access only from a device that acknowledges and has the channel back.
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::BACKEND_REQ
    }

    fn set_event_idx(&self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        // An empty answer is an error on the wire.
        configuration(&self.lock().disk, offset as usize, size as usize).unwrap_or_default()
    }

    fn set_config(&self, _offset: u32, _bytes: &[u8]) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the disk is read-only"))
    }

    fn update_memory(&self, _memory: Memory) -> io::Result<()> {
        Ok(())
    }

    fn set_backend_req_fd(&self, channel: Channel) {
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel);
    }

    fn queues_per_thread(&self) -> Vec<u64> {
        // One thread for all: there is one queue in use.
        vec![(1 << MAX_QUEUES) - 1]
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC).ok()
    }

    fn handle_event(
        &self,
        event: u16,
        _events: EventSet,
        vrings: &[VringMutex],
        _thread: usize,
    ) -> io::Result<()> {
        // Never an error: it would end the thread, and with it the disk, without a word.
        if let Some(vring) = vrings.get(usize::from(event)) {
            while self.serve_some(vring) {
                // A guest that never stops asking must not keep the VMM from stopping the queue.
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Device").finish_non_exhaustive()
    }
}
