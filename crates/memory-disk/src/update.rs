//! New content for a disk that is being served, over a socket beside the VMM's.
//!
//! The serving process cannot open a file any more, so the content comes to it. On the wire,
//! numbers little endian:
//!
//! 1. The device greets: `newdisk1`, the disk's capacity in bytes (8), and one byte: 0, or 3 for a
//!    dark disk and that was all.
//! 2. The client sends exactly so many bytes.
//! 3. The device answers one byte: 1 for a change, 2 where the disk had that content before, 3
//!    where it is dark by now.
//!
//! There is nothing to parse for the device: it counts bytes, into locked memory of the disk's own
//! size, until all are there or the time is up. Only then it exchanges the two, between two
//! requests of the guest; a client that goes away before leaves everything as it was. Clients are
//! served one after the other, and only those of root or of the device's own user.

mod client;
mod server;

pub use client::{Client, UpdateError};
pub(crate) use server::Updates;

/// How the greeting begins. Another first byte than any answer.
const GREETING_MAGIC: [u8; 8] = *b"newdisk1";

/// [`GREETING_MAGIC`], the capacity, and the state.
const GREETING_BYTES: usize = 17;

const READY: u8 = 0;
const CHANGED: u8 = 1;
const SAME: u8 = 2;
const DARK: u8 = 3;
