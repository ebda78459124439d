//! A blob on its way from the network to the decoder: hashed, counted, and never longer than the
//! manifest says.

use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use oci_image::digest::{Digest, Hasher, Mismatch};

use super::caller::CallerWatch;

/// What a manifest says about a blob.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its digest.
    pub digest: Digest,
    /// Its size.
    pub size: u64,
}

/// How much is handed over at once: a waiting thread is not woken for less.
const BATCH_BYTES: usize = 256 << 10;

/// What has been received of a blob.
#[derive(Debug)]
pub struct Blob<'a> {
    expected: &'a Expected,
    hasher: Hasher,
    received: u64,
}

impl<'a> Blob<'a> {
    /// Nothing yet.
    pub fn new(expected: &'a Expected) -> Self {
        Self { expected, hasher: expected.digest.hasher(), received: 0 }
    }

    /// Takes everything that the source has, up to the blob's size and while the caller waits, and
    /// hands it to the next stage. If that stage is gone, the rest is still taken for the digest,
    /// which tells whether the blob is the reason why the stage failed.
    pub fn receive(
        &mut self,
        source: impl Iterator<Item = Bytes>,
        next: SyncSender<Vec<Bytes>>,
        caller: &CallerWatch,
    ) {
        let mut next = Some(next);
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        for chunk in source {
            self.received += chunk.len() as u64;
            if self.received > self.expected.size || caller.is_gone() {
                return;
            }
            batch_bytes += chunk.len();
            batch.push(chunk.clone());
            if batch_bytes >= BATCH_BYTES {
                hand_over(&mut next, &mut batch);
                batch_bytes = 0;
            }
            self.hasher.update(&chunk);
        }
        hand_over(&mut next, &mut batch);
    }

    /// Compares digest and size.
    ///
    /// # Errors
    ///
    /// [`Mismatch`].
    pub fn finish(self) -> Result<(), Mismatch> {
        let (expected, received) = (self.expected, self.received);
        let size = || Mismatch::Size {
            digest: expected.digest.clone(),
            expected: expected.size,
            received,
        };
        if received > expected.size {
            return Err(size());
        }
        expected.digest.check(self.hasher.finish(), received)?;
        if received != expected.size {
            return Err(size());
        }
        Ok(())
    }
}

fn hand_over(next: &mut Option<SyncSender<Vec<Bytes>>>, batch: &mut Vec<Bytes>) {
    let batch = std::mem::take(batch);
    if next.as_ref().is_some_and(|next| next.send(batch).is_err()) {
        *next = None;
    }
}
