//! Ciphertext made plain, on its way from the network to the decoder.

use std::mem;
use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use keys::decryptor::SLACK_BYTES;
use keys::{Decryptor, Forged};

use super::pool::Pool;

/// How many decrypted buffers there are.
pub(crate) const BUFFERS: usize = 4;

/// How much is handed over at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Decrypts everything and hands it to the next stage. If that stage is gone, the rest is still
/// taken for the HMAC, which tells whether the ciphertext was forged.
///
/// # Errors
///
/// [`Forged`], after everything was handed on.
pub(crate) fn decrypt(
    mut decryptor: Decryptor,
    ciphertext: impl Iterator<Item = Bytes>,
    next: SyncSender<Bytes>,
) -> Result<(), Forged> {
    let mut output = Output {
        pool: Pool::new(BUFFERS, BUFFER_BYTES + SLACK_BYTES),
        buffer: Vec::new(),
        filled: 0,
        next: Some(next),
    };
    for chunk in ciphertext {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let taken = decryptor.update(rest, output.place())?;
            rest = &rest[taken..];
            output.filled += taken;
            if output.filled == BUFFER_BYTES {
                output.hand_over();
            }
        }
    }
    output.hand_over();
    decryptor.finish()
}

struct Output {
    pool: Pool,
    /// Empty until it is needed.
    buffer: Vec<u8>,
    filled: usize,
    /// As long as somebody listens.
    next: Option<SyncSender<Bytes>>,
}

impl Output {
    /// Where the next plain bytes go.
    fn place(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = self.pool.take();
        }
        &mut self.buffer[self.filled..]
    }

    fn hand_over(&mut self) {
        let filled = mem::take(&mut self.filled);
        let Some(next) = &self.next else {
            return;
        };
        let shared = self.pool.share(mem::take(&mut self.buffer), 0..filled);
        if next.send(shared).is_err() {
            self.next = None;
        }
    }
}
