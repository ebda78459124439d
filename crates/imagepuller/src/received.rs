//! The queue between a transfer, which must not block, and the thread that unpacks, which may.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How many bytes may be on the way to a thread that unpacks. Counted instead of chunks, which have
/// from a few bytes to half a MiB.
const MAX_BYTES: usize = 512 << 10;

/// Chunks below this are copied together. A chunk keeps the whole buffer alive that it was read
/// into, and a server that sends single bytes, each in a frame padded to kilobytes, would have
/// gigabytes kept for a few of them.
const COPIED_BYTES: usize = 64 << 10;

/// The end that a transfer fills.
#[derive(Debug)]
pub struct Sender {
    /// Small chunks that have not been sent yet.
    gathered: BytesMut,
    /// How many of these are worth a buffer.
    gathered_bytes: usize,
    chunks: mpsc::UnboundedSender<(Bytes, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
}

/// The receiving end. A transfer that broke off is seen as a blob that is too short.
#[derive(Debug)]
pub struct Received {
    chunks: mpsc::UnboundedReceiver<(Bytes, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    room_bytes: usize,
}

/// The receiving end is gone.
#[derive(Clone, Copy, Debug)]
pub struct Gone;

/// A way for the chunks of one blob, with room for so many bytes until it is
/// [widened](Received::widen). Who sends more bytes keeps the last chunk waiting.
pub fn channel(room_bytes: usize) -> (Sender, Received) {
    let (sender, chunks) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(room_bytes));
    let sender = Sender {
        gathered: BytesMut::new(),
        gathered_bytes: COPIED_BYTES.min(room_bytes),
        chunks: sender,
        room: room.clone(),
    };
    let received = Received { chunks, room, room_bytes };
    (sender, received)
}

impl Received {
    /// Makes all the room that a thread needs which takes the chunks from now on.
    pub fn widen(&self) {
        self.room.add_permits(MAX_BYTES.saturating_sub(self.room_bytes));
    }
}

impl Sender {
    /// Sends a chunk, or keeps it until there are more.
    ///
    /// # Errors
    ///
    /// [`Gone`].
    pub async fn send(&mut self, chunk: Bytes) -> Result<(), Gone> {
        if self.gathered.len() + chunk.len() >= COPIED_BYTES {
            self.flush().await?;
        }
        if chunk.len() >= COPIED_BYTES {
            return self.send_now(chunk).await;
        }
        let left = self.gathered_bytes.saturating_sub(self.gathered.len());
        self.gathered.reserve(left);
        self.gathered.extend_from_slice(&chunk);
        Ok(())
    }

    /// Sends what was kept, at the end of a transfer.
    ///
    /// # Errors
    ///
    /// [`Gone`].
    pub async fn flush(&mut self) -> Result<(), Gone> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.gathered).freeze();
        self.send_now(chunk).await
    }

    /// Ends when the receiving end is gone.
    pub async fn closed(&self) {
        self.chunks.closed().await;
    }

    /// Waits until there is room for the chunk; for a larger one than all the room, until there is
    /// nothing else.
    async fn send_now(&self, chunk: Bytes) -> Result<(), Gone> {
        // Not beyond 32 bits.
        let bytes = u32::try_from(chunk.len().min(MAX_BYTES)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(bytes).await;
        let permit = room.map_err(|_| Gone)?;
        self.chunks.send((chunk, permit)).map_err(|_| Gone)
    }
}

impl Iterator for Received {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.chunks.blocking_recv().map(|(chunk, _permit)| chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn chunk(length: usize) -> Bytes {
        vec![7; length].into()
    }

    /// A receiver that goes away must not leave the transfer waiting for room.
    #[tokio::test]
    async fn bytes_are_bounded_and_nobody_waits_for_ever() {
        let (mut sender, mut received) = channel(MAX_BYTES);
        let max = MAX_BYTES;
        sender.send_now(chunk(max - 1)).await.unwrap();
        sender.send_now(chunk(1)).await.unwrap();
        let waits =
            tokio::time::timeout(Duration::from_millis(50), sender.send_now(chunk(1))).await;
        assert!(waits.is_err(), "there is no room");
        let taking = tokio::task::spawn_blocking(move || {
            let lengths: Vec<_> = received.by_ref().take(3).map(|chunk| chunk.len()).collect();
            (lengths, received)
        });
        sender.send(chunk(2 * max)).await.unwrap();
        let (lengths, received) = taking.await.unwrap();
        assert_eq!(lengths, [max - 1, 1, 2 * max]);
        sender.send(chunk(max)).await.unwrap();
        let (sent, ()) = tokio::join!(sender.send_now(chunk(1)), async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(received);
        });
        assert!(sent.is_err());
    }

    #[tokio::test]
    async fn the_end_of_the_transfer_is_the_end() {
        let (mut sender, mut received) = channel(MAX_BYTES);
        sender.send(chunk(5)).await.unwrap();
        sender.flush().await.unwrap();
        drop(sender);
        let received = tokio::task::spawn_blocking(move || (received.next(), received.next()));
        assert_eq!(received.await.unwrap(), (Some(chunk(5)), None));
    }

    /// Half a million single bytes, each of which kept kilobytes alive, once waited for the thread
    /// that unpacks.
    #[tokio::test]
    async fn small_chunks_do_not_keep_the_buffers_they_came_in() {
        let (mut sender, received) = channel(MAX_BYTES);
        let read = chunk(1 << 20);
        for at in 0..COPIED_BYTES + 10 {
            sender.send(read.slice(at..=at)).await.unwrap();
        }
        assert!(read.is_unique(), "a chunk still points into it");
        sender.flush().await.unwrap();
        drop(sender);
        let taking = tokio::task::spawn_blocking(move || {
            received.map(|chunk| chunk.len()).collect::<Vec<_>>()
        });
        let lengths = taking.await.unwrap();
        assert_eq!(lengths.iter().sum::<usize>(), COPIED_BYTES + 10);
        assert!(lengths.len() <= 2, "{lengths:?}");
    }
}
