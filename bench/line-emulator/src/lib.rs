//! Tests only: a line of a given delay and bandwidth between two network namespaces.
//!
//! On loopback a round trip costs nothing, so what a program does in turns looks as quick as what
//! it does at once. Here every IP packet takes its time, both ways, so that TCP's handshakes, its
//! slow start and its windows count as they do on a long line. The kernel's own emulator (netem) is
//! a module that many kernels lack; TUN interfaces they have.
//!
//! The *far* end is the network namespace of the thread that makes the line, where a server
//! listens; the *near* end is a new one that has no other way out. What goes in at one end is read
//! from a TUN interface, waits, and is written to the interface at the other end. Packets are never
//! made, changed or reordered; only a full queue loses them.
//!
//! Not here: jitter, losses by chance, IPv6.
//!
//! - [`Line`]: the entry; made, used and taken down.
//! - `schedule`: when a packet arrives, or that the queue is full. No I/O, no clock.
//! - `relay`: the threads that carry packets.
//! - `end`: namespaces and interfaces.
//! - `count`: what went over the line.

mod count;
mod end;
mod relay;
mod schedule;

pub use count::{Counts, Way};
pub use end::{FAR_ADDRESS, NEAR_ADDRESS};
pub use schedule::Quality;

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use end::{End, Near};
use relay::Relay;

/// A line that is up; it is taken down with this value.
#[derive(Debug)]
pub struct Line {
    near: Near,
    relay: Relay,
}

impl Line {
    /// Makes the near namespace and joins it to the one of this thread, where the interface `far`
    /// appears: one line at a time for each namespace. Needs root.
    ///
    /// # Errors
    ///
    /// Those of the kernel and of `ip`, with the step that failed.
    pub fn new(quality: Quality) -> Result<Self> {
        let far = End::far()?;
        let (near, end) = Near::new()?;
        let relay = Relay::start(quality, end, far)?;
        Ok(Self { near, relay })
    }

    /// The near namespace, as a path that `nsenter` and `setns` take while this process lives.
    pub fn near(&self) -> PathBuf {
        self.near.path()
    }

    /// The same command at the near end.
    pub fn enter(&self, command: &Command) -> Command {
        let mut entering = Command::new("nsenter");
        entering
            .arg(format!("--net={}", self.near().display()))
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => entering.env(key, value),
                None => entering.env_remove(key),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            entering.current_dir(directory);
        }
        entering
    }

    /// What went over it so far.
    pub fn counts(&self) -> Counts {
        self.relay.counts()
    }
}
