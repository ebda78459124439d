//! Buffers of one size that are used again, so that a layer of any size takes the same memory.

use std::ops::Range;
use std::sync::mpsc;

use bytes::Bytes;

/// A bounded number of buffers.
#[derive(Debug)]
pub struct Pool {
    free: mpsc::Receiver<Vec<u8>>,
    give_back: mpsc::Sender<Vec<u8>>,
    /// How many may still be made.
    unmade: usize,
    buffer_bytes: usize,
}

impl Pool {
    /// A pool; its buffers are made when they are first needed.
    pub fn new(buffers: usize, buffer_bytes: usize) -> Self {
        let (give_back, free) = mpsc::channel();
        Self { free, give_back, unmade: buffers, buffer_bytes }
    }

    /// A buffer of the pool's size with anything in it. Waits for one if all are in use.
    pub fn take(&mut self) -> Vec<u8> {
        if let Ok(buffer) = self.free.try_recv() {
            return buffer;
        }
        if self.unmade == 0 {
            // Only a pool that is gone could end this queue, and it is here.
            if let Ok(buffer) = self.free.recv() {
                return buffer;
            }
        }
        self.unmade = self.unmade.saturating_sub(1);
        vec![0; self.buffer_bytes]
    }

    /// A part of a buffer, to be read by several. With the last of them the buffer comes back.
    pub fn share(&self, buffer: Vec<u8>, part: Range<usize>) -> Bytes {
        let buffer = PooledBuffer { buffer, give_back: self.give_back.clone() };
        Bytes::from_owner(buffer).slice(part)
    }
}

/// A buffer in use.
struct PooledBuffer {
    buffer: Vec<u8>,
    give_back: mpsc::Sender<Vec<u8>>,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        // The pool may be gone before its last buffer.
        let _ = self.give_back.send(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn buffers_are_counted_and_come_back() {
        let mut pool = Pool::new(2, 8);
        let (mut first, second) = (pool.take(), pool.take());
        first[0] = 7;
        let shared = pool.share(first, 0..1);
        let other = shared.clone();
        drop(shared);
        assert_eq!(other, [7][..]);
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            drop(other);
        });
        // There is no third one, so this waits for the first.
        assert_eq!(pool.take()[0], 7);
        late.join().unwrap();
        drop(pool.share(second, 0..8));
        assert_eq!(pool.take().len(), 8);
    }
}
