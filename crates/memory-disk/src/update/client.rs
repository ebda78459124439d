//! The end that has the new content.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::{CHANGED, DARK, GREETING_BYTES, GREETING_MAGIC, READY, SAME};
use crate::device::MAX_IMAGE_BYTES;

/// How long the device is waited for. Longer than it gives to the client before this one.
const LIMIT: Duration = Duration::from_secs(15);

/// A connection to the device, which has told its capacity.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    capacity: usize,
}

/// Why a disk has not got new content, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// Somebody else listens there.
    #[error("update the disk: the socket belongs to a process of uid {uid}")]
    Peer {
        /// Whose process it is.
        uid: u32,
    },
    /// What listens there is no disk.
    #[error("update the disk: what listens there does not greet as one")]
    Greeting,
    /// The disk has gone dark.
    #[error(
        "update the disk: it is dark, as --once demands after the guest has read it; nothing can \
        be read from it any more"
    )]
    Dark,
    /// The content has another length than the disk.
    #[error("update the disk: it has {capacity} bytes, the new content {bytes}")]
    Length {
        /// The length of the content.
        bytes: usize,
        /// The disk's.
        capacity: usize,
    },
    /// The device answered what it never should.
    #[error("update the disk: it did not accept the new content")]
    Refused,
    /// The connection broke, or took too long. The disk has the old content.
    #[error("update the disk: {0}")]
    Io(#[from] io::Error),
}

impl Client {
    /// Takes a fresh connection and reads what the device greets with. The other end must be a
    /// process of root or of this one's user: it is going to be told secrets.
    ///
    /// # Errors
    ///
    /// [`UpdateError::Peer`], [`UpdateError::Greeting`], [`UpdateError::Dark`],
    /// [`UpdateError::Io`].
    pub fn greet(mut stream: UnixStream) -> Result<Self, UpdateError> {
        let uid = socket_peercred(&stream).map_err(io::Error::from)?.uid.as_raw();
        if uid != 0 && uid != geteuid().as_raw() {
            return Err(UpdateError::Peer { uid });
        }
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let mut greeting = [0; GREETING_BYTES];
        stream.read_exact(&mut greeting)?;
        let capacity = parse(&greeting)?;
        Ok(Self { stream, capacity })
    }

    /// The disk's size in bytes: the content must have just as many.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Gives the disk new content. Says whether it had another one before.
    ///
    /// # Errors
    ///
    /// [`UpdateError::Length`], [`UpdateError::Dark`], [`UpdateError::Refused`],
    /// [`UpdateError::Io`]. After an `Io` the disk usually has the old content; it has the new one
    /// where only the answer got lost. Sending it again is harmless.
    pub fn send(mut self, content: &[u8]) -> Result<bool, UpdateError> {
        if content.len() != self.capacity {
            return Err(UpdateError::Length { bytes: content.len(), capacity: self.capacity });
        }
        self.stream.write_all(content)?;
        let mut answer = [0];
        self.stream.read_exact(&mut answer)?;
        match answer {
            [CHANGED] => Ok(true),
            [SAME] => Ok(false),
            [DARK] => Err(UpdateError::Dark),
            _ => Err(UpdateError::Refused),
        }
    }
}

/// The capacity that a greeting tells.
fn parse(greeting: &[u8; GREETING_BYTES]) -> Result<usize, UpdateError> {
    let (magic, rest) = greeting.split_first_chunk::<8>().ok_or(UpdateError::Greeting)?;
    let (capacity, state) = rest.split_first_chunk::<8>().ok_or(UpdateError::Greeting)?;
    let capacity = usize::try_from(u64::from_le_bytes(*capacity))
        .ok()
        .filter(|bytes| (1..=MAX_IMAGE_BYTES).contains(bytes));
    match (*magic == GREETING_MAGIC, capacity, state) {
        (true, Some(capacity), [READY]) => Ok(capacity),
        (true, Some(_), [DARK]) => Err(UpdateError::Dark),
        _ => Err(UpdateError::Greeting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_disk_is_believed() {
        let greeting = |magic: &[u8; 8], capacity: u64, state: u8| {
            let mut greeting = [0; GREETING_BYTES];
            greeting[..8].copy_from_slice(magic);
            greeting[8..16].copy_from_slice(&capacity.to_le_bytes());
            greeting[16] = state;
            greeting
        };
        let limit = MAX_IMAGE_BYTES as u64;
        for capacity in [512, limit] {
            let told = parse(&greeting(&GREETING_MAGIC, capacity, READY)).unwrap();
            assert_eq!(told as u64, capacity);
        }
        assert!(matches!(parse(&greeting(&GREETING_MAGIC, 512, DARK)), Err(UpdateError::Dark)));
        for (magic, capacity, state) in [
            (b"newdisk2", 512, READY),
            (b"\0\0\0\0\0\0\0\0", 512, READY),
            (&GREETING_MAGIC, 0, READY),
            (&GREETING_MAGIC, limit + 1, READY),
            (&GREETING_MAGIC, u64::MAX, DARK),
            (&GREETING_MAGIC, 512, CHANGED),
            (&GREETING_MAGIC, 512, 0xff),
        ] {
            assert!(matches!(parse(&greeting(magic, capacity, state)), Err(UpdateError::Greeting)));
        }
    }
}
