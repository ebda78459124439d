//! Bytes that may be a secret, gathered without leaving copies behind.

use zeroize::Zeroizing;

/// The smallest capacity; most secrets fit.
const START_BYTES: usize = 4 << 10;

/// A vector that zeroes its old memory when it grows, which `Vec` does not do.
#[derive(Default)]
pub struct Buffer(Zeroizing<Vec<u8>>);

impl Buffer {
    /// Adds bytes. The caller bounds the whole.
    pub fn push(&mut self, bytes: &[u8]) {
        let needed = self.0.len().saturating_add(bytes.len());
        if needed > self.0.capacity() {
            let capacity = needed.max(self.0.capacity().saturating_mul(2)).max(START_BYTES);
            let mut larger = Zeroizing::new(Vec::with_capacity(capacity));
            larger.extend_from_slice(&self.0);
            self.0 = larger;
        }
        self.0.extend_from_slice(bytes);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them.
    pub fn finish(self) -> Zeroizing<Vec<u8>> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let all: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
        for size in [1, 7, 4095, 4096, 4097, 100_000] {
            let mut buffer = Buffer::default();
            for chunk in all.chunks(size) {
                buffer.push(chunk);
            }
            assert_eq!(buffer.len(), all.len());
            assert_eq!(*buffer.finish(), all, "{size}");
        }
    }
}
