//! The threads that carry packets: one that takes them and one that delivers them, each way.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::count::{Connections, Counts, Way};
use crate::end::End;
use crate::schedule::{Quality, Schedule};

/// More than the interfaces' MTU.
const MAX_PACKET_BYTES: usize = 64 << 10;

/// How long a thread sleeps before it looks whether the line is to be taken down.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The threads; they end with this value.
#[derive(Debug)]
pub(crate) struct Relay {
    shared: Arc<Shared>,
    /// Its other end tells the takers by hanging up.
    hang_up: Option<PipeWriter>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    ways: [Figures; 2],
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Figures {
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    on_the_way: AtomicU64,
}

/// Which way; the index of its [`Figures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up = 0,
    Down = 1,
}

struct Packet {
    due: Instant,
    bytes: Vec<u8>,
}

impl Relay {
    pub(crate) fn start(quality: Quality, near: End, far: End) -> Result<Self> {
        let (told, hang_up) = io::pipe()?;
        let mut relay =
            Self { shared: Arc::default(), hang_up: Some(hang_up), threads: Vec::new() };
        let (near_too, far_too) = (near.0.try_clone()?, far.0.try_clone()?);
        relay.carry(Direction::Up, quality, near.0, far.0, told.try_clone()?)?;
        relay.carry(Direction::Down, quality, far_too, near_too, told)?;
        Ok(relay)
    }

    pub(crate) fn counts(&self) -> Counts {
        let way = |direction: Direction| {
            let figures = self.shared.figures(direction);
            Way {
                packets: figures.packets.load(Ordering::Relaxed),
                bytes: figures.bytes.load(Ordering::Relaxed),
                lost: figures.lost.load(Ordering::Relaxed),
            }
        };
        let connections = self.shared.connections();
        Counts {
            up: way(Direction::Up),
            down: way(Direction::Down),
            connections: connections.begun(),
            waiting_at_most: connections.waiting_at_most(),
        }
    }

    fn carry(
        &mut self,
        direction: Direction,
        quality: Quality,
        from: File,
        to: File,
        told: PipeReader,
    ) -> Result<()> {
        let (sender, receiver) = channel();
        let shared = self.shared.clone();
        let taker = move || take(direction, quality, from, &told, &sender, &shared);
        self.spawn(taker)?;
        let shared = self.shared.clone();
        self.spawn(move || deliver(direction, to, &receiver, &shared))
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = thread::Builder::new().name("line".to_owned()).spawn(work);
        self.threads.push(thread.context("failed to start a thread")?);
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.hang_up = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    const fn figures(&self, direction: Direction) -> &Figures {
        &self.ways[direction as usize]
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Takes what is sent at one end and decides when it arrives.
fn take(
    direction: Direction,
    quality: Quality,
    mut from: File,
    told: &PipeReader,
    sender: &Sender<Packet>,
    shared: &Shared,
) {
    let (mut schedule, figures) = (Schedule::new(quality), shared.figures(direction));
    let max_on_the_way = quality.max_on_the_way();
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    while !shared.is_over() {
        let bytes = match from.read(&mut buffer) {
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait(&from, told);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let (now, length) = (Instant::now(), bytes.len() as u64);
        let on_the_way = figures.on_the_way.load(Ordering::Relaxed);
        let has_room = on_the_way + length <= max_on_the_way;
        let Some(due) = has_room.then(|| schedule.accept(now, length)).flatten() else {
            figures.lost.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        if direction == Direction::Up {
            shared.connections().sent(bytes);
        }
        figures.packets.fetch_add(1, Ordering::Relaxed);
        figures.bytes.fetch_add(length, Ordering::Relaxed);
        figures.on_the_way.fetch_add(length, Ordering::Relaxed);
        let packet = Packet { due, bytes: bytes.to_vec() };
        if sender.send(packet).is_err() {
            return;
        }
    }
}

/// Waits for a packet, or for the end.
fn wait(from: &File, told: &PipeReader) {
    let mut files = [PollFd::new(from, PollFlags::IN), PollFd::new(told, PollFlags::IN)];
    match poll(&mut files, None) {
        Ok(_) | Err(Errno::INTR) => {}
        // It would be busy waiting otherwise.
        Err(_) => thread::sleep(MAX_SLEEP),
    }
}

/// Hands over at the other end what was taken at the first, in the same order and not too early.
fn deliver(direction: Direction, mut to: File, receiver: &Receiver<Packet>, shared: &Shared) {
    let figures = shared.figures(direction);
    while let Ok(packet) = receiver.recv() {
        loop {
            if shared.is_over() {
                return;
            }
            let early = packet.due.saturating_duration_since(Instant::now());
            if early.is_zero() {
                break;
            }
            thread::sleep(early.min(MAX_SLEEP));
        }
        if direction == Direction::Down {
            shared.connections().received(&packet.bytes);
        }
        // An interface that was taken down takes nothing, as a line that was cut.
        let _ = to.write(&packet.bytes);
        figures.on_the_way.fetch_sub(packet.bytes.len() as u64, Ordering::Relaxed);
    }
}
