//! Leave to read blobs before anybody unpacks them, so that a long line is waited for once and not
//! once for each layer.
//!
//! A blob that is opened and not read is worse than one that is not opened: its receive window
//! closes, and the sender begins slowly again. So a blob is opened only by who has [`Leave`] to
//! keep what comes:
//!
//! - A **small** blob is read whole, into bytes of a budget that all pulls of a service share.
//! - Of a **large** one the first part is read, and the rest as soon as it is unpacked. A pull has
//!   a few lanes for this, which are its own.
//! - A small blob for which the budget has no bytes takes a lane too. So a pull goes on whatever
//!   others hold, however slow their registries are; at worst it reads as many layers at once as it
//!   has lanes.
//! - One large blob of all pulls may come in **several parts at once**, where its registry is far
//!   away.
//!
//! What is read before the configuration of its image is there takes from the budget what is free
//! at that moment, and waits for nothing.
//!
//! # Why nobody waits for ever
//!
//! A layer takes in this order: the store's lock on its name, leave, a place of its pull, a place
//! of the service. It waits for one only while it holds earlier ones, and gives leave back when it
//! has its places. Who holds places waits for the network and the disk alone, and both have their
//! limits. Who waits for another pull's layer holds nothing of this. All of it belongs to the
//! layer's task, so a pull that fails or is dropped gives back what it had.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::error::Error;

/// How many bytes of small blobs may be read ahead, for all pulls of a service.
pub const MAX_BYTES: usize = 8 << 20;

/// The largest blob that is read whole: several of them are to find room.
pub const MAX_SMALL_BYTES: u64 = 1 << 20;

/// What a reader costs besides the bytes of its blob: a connection with its buffers. It bounds the
/// number of readers in a service, for a manifest may have thousands of empty blobs.
const READER_BYTES: usize = 64 << 10;

/// How much of a blob the HTTP client may hold besides, in buffers that grow with what comes: 400
/// KiB over HTTP/1.1.
const MAX_CLIENT_BYTES: usize = 512 << 10;

/// How many small blobs of an image are read at once: as many connections over HTTP/1.1.
pub const MAX_READERS: usize = 32;

/// How much of a large blob is read before it is unpacked: what the first round trips bring.
pub const FIRST_PART_BYTES: usize = 256 << 10;

/// The smallest blob that may come in several parts at once. With 48 MB, 50 ms away each way, the
/// parts' connections took as long to get going as they won.
const MIN_PARTS_BYTES: u64 = 64 << 20;

/// How many lanes a pull has. Few, for an answer over HTTP/2 that waits here takes from what its
/// connection may have under way (`CONNECTION_WINDOW_BYTES` in `registry-client`).
pub const LANES: usize = 2;

/// How many layers of one image are unpacked at once: one waits for its bytes while another fills a
/// core. More cost 15 MiB and win nothing.
pub const LAYERS_AT_ONCE: usize = 2;

/// How many layers are unpacked at a time in a service, for all images. Each costs some MiB of
/// buffers.
const MAX_LAYERS_UNPACKED_AT_ONCE: usize = 4;

/// What a service has for reading ahead.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes: Arc<Semaphore>,
    /// One for each layer that may be unpacked at a time: each costs buffers and threads.
    places: Arc<Semaphore>,
    /// For one blob of all pulls that comes in several parts at once.
    parts: Arc<Semaphore>,
}

/// What one pull has of it.
#[derive(Debug)]
pub struct Allowance {
    budget: Budget,
    lanes: Arc<Semaphore>,
    /// One for each layer of the image that may be unpacked at a time.
    places: Arc<Semaphore>,
}

/// Leave to open a blob, and to keep so much of it.
#[derive(Debug)]
pub struct Leave {
    /// How many bytes may be kept.
    pub bytes: usize,
    /// Whether that is all of it.
    pub is_whole: bool,
    _permit: OwnedSemaphorePermit,
}

/// Leave to unpack a layer.
#[derive(Debug)]
pub struct Place {
    _of_pull: OwnedSemaphorePermit,
    _of_service: OwnedSemaphorePermit,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(MAX_BYTES)),
            places: Arc::new(Semaphore::new(MAX_LAYERS_UNPACKED_AT_ONCE)),
            parts: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Budget {
    /// What a pull gets.
    pub fn allowance(&self) -> Allowance {
        Allowance {
            budget: self.clone(),
            lanes: Arc::new(Semaphore::new(LANES)),
            places: Arc::new(Semaphore::new(LAYERS_AT_ONCE)),
        }
    }

    /// Leave to read a small blob of this size whole, if there is room for it now.
    pub fn leave_now(&self, size: u64) -> Option<Leave> {
        let permit = self.bytes.clone().try_acquire_many_owned(cost(size));
        permit.ok().map(|permit| Leave::whole(permit, size))
    }
}

impl Allowance {
    /// Waits for leave to open a blob of this size.
    ///
    /// # Errors
    ///
    /// None that happen.
    pub async fn leave(&self, size: u64) -> Result<Leave, Error> {
        let lane = self.lanes.clone().acquire_owned();
        if !is_small(size) {
            return Ok(Leave::part(lane.await.map_err(closed)?, FIRST_PART_BYTES));
        }
        tokio::select! {
            biased;
            permit = self.budget.bytes.clone().acquire_many_owned(cost(size)) => {
                Ok(Leave::whole(permit.map_err(closed)?, size))
            }
            permit = lane => {
                let bytes = bytes(size).min(FIRST_PART_BYTES);
                Ok(Leave::part(permit.map_err(closed)?, bytes))
            }
        }
    }

    /// Leave to have a blob of this size in several parts at once, if it is worth it and no other
    /// blob has it.
    pub fn parts_now(&self, size: u64) -> Option<registry_client::Leave> {
        let parts = (size >= MIN_PARTS_BYTES).then_some(&self.budget.parts)?;
        parts.clone().try_acquire_owned().ok()
    }

    /// Waits for a place to unpack in.
    ///
    /// # Errors
    ///
    /// None that happen.
    pub async fn place(&self) -> Result<Place, Error> {
        // The pull's own first: a place of the service is not to be held by who waits for itself.
        let of_pull = self.places.clone().acquire_owned().await.map_err(closed)?;
        let of_service = self.budget.places.clone().acquire_owned().await;
        Ok(Place { _of_pull: of_pull, _of_service: of_service.map_err(closed)? })
    }
}

impl Leave {
    fn whole(permit: OwnedSemaphorePermit, size: u64) -> Self {
        Self { bytes: bytes(size), is_whole: true, _permit: permit }
    }

    fn part(permit: OwnedSemaphorePermit, bytes: usize) -> Self {
        Self { bytes, is_whole: false, _permit: permit }
    }
}

/// Whether a blob is read whole.
pub fn is_small(size: u64) -> bool {
    size <= MAX_SMALL_BYTES
}

/// What a small blob takes from the budget.
fn cost(size: u64) -> u32 {
    // Not beyond 32 bits.
    u32::try_from(bytes(size) + bytes(size).min(MAX_CLIENT_BYTES) + READER_BYTES)
        .unwrap_or(u32::MAX)
}

/// Never more than a small blob has.
fn bytes(size: u64) -> usize {
    usize::try_from(size.min(MAX_SMALL_BYTES)).unwrap_or(FIRST_PART_BYTES)
}

fn closed(error: AcquireError) -> Error {
    Error::Internal(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::task::JoinSet;

    /// What readers hold at a moment, and the most that they ever held.
    #[derive(Debug, Default)]
    struct Held {
        now: usize,
        most: usize,
    }

    /// One that takes `time_ms` to read and to unpack, or hangs until it is dropped.
    async fn read(allowance: Arc<Allowance>, size: u64, time_ms: Option<u64>, held: &Mutex<Held>) {
        let leave = allowance.leave(size).await.unwrap();
        assert!(!leave.is_whole || is_small(size) && leave.bytes as u64 == size);
        if leave.is_whole {
            let mut held = held.lock().unwrap();
            held.now += cost(size) as usize;
            held.most = held.most.max(held.now);
        } else {
            assert!(leave.bytes <= FIRST_PART_BYTES);
        }
        match time_ms {
            Some(time_ms) => tokio::time::sleep(Duration::from_millis(time_ms)).await,
            None => std::future::pending().await,
        }
        let _place = allowance.place().await.unwrap();
        if leave.is_whole {
            held.lock().unwrap().now -= cost(size) as usize;
        }
        drop(leave);
        tokio::time::sleep(Duration::from_millis(time_ms.unwrap_or_default())).await;
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(work)
    }

    proptest! {
        /// Whatever sizes many pulls' layers have, and however long they take: the bytes are
        /// bounded, and all come to an end.
        #[test]
        fn the_budget_is_never_exceeded(
            pulls in proptest::collection::vec(
                proptest::collection::vec((0..=2 * MAX_SMALL_BYTES, 0..50u64), 1..40), 1..6,
            ),
        ) {
            run(async {
                let budget = Budget::default();
                let held: &'static Mutex<Held> = Box::leak(Box::default());
                let mut readers = JoinSet::new();
                for layers in pulls {
                    let allowance = Arc::new(budget.allowance());
                    for (size, time) in layers {
                        readers.spawn(read(allowance.clone(), size, Some(time), held));
                    }
                }
                let ended = tokio::time::timeout(Duration::from_secs(3600), readers.join_all());
                ended.await.expect("some wait for ever");
                let held = held.lock().unwrap();
                assert!(held.most <= MAX_BYTES, "{held:?}");
                assert_eq!(budget.bytes.available_permits(), MAX_BYTES);
            });
        }
    }

    /// Pulls whose registries send nothing hold all of the budget. Others go on, and when the first
    /// ones are dropped everything is there again.
    #[test]
    fn nobody_waits_for_another_pulls_registry() {
        run(async {
            let budget = Budget::default();
            let held: &'static Mutex<Held> = Box::leak(Box::default());
            let mut hanging = JoinSet::new();
            for size in [MAX_SMALL_BYTES, 0, u64::MAX] {
                let allowance = Arc::new(budget.allowance());
                for _ in 0..40 {
                    hanging.spawn(read(allowance.clone(), size, None, held));
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(budget.bytes.available_permits() < READER_BYTES);
            let mut others = JoinSet::new();
            let allowance = Arc::new(budget.allowance());
            for size in [0, 1, MAX_SMALL_BYTES, MAX_SMALL_BYTES + 1, u64::MAX] {
                others.spawn(read(allowance.clone(), size, Some(5), held));
            }
            let ended = tokio::time::timeout(Duration::from_secs(60), others.join_all());
            ended.await.expect("they wait for others");
            hanging.shutdown().await;
            assert_eq!(budget.bytes.available_permits(), MAX_BYTES);
            assert_eq!(budget.places.available_permits(), MAX_LAYERS_UNPACKED_AT_ONCE);
        });
    }
}
