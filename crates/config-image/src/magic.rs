//! The eight bytes that say what an image is for.

use std::fmt;
use std::io;

use crate::ReadAt;

/// What an image is for: its first eight bytes, printable ASCII.
///
/// Spec: `docs/format.md`, "Layout".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Magic([u8; 8]);

impl Magic {
    /// The initdata document, covered by the VM's attestation evidence.
    pub const INITDATA: Self = Self(*b"initdata");
    /// The image puller's configuration, covered by nothing.
    pub const IMAGEPULLER: Self = Self(*b"imgpullr");

    /// Makes a magic of `bytes`.
    ///
    /// # Errors
    ///
    /// [`NotAscii`] where a byte is not a visible ASCII character: such a magic could not be told
    /// in a message, and eight zero bytes would match every blank disk.
    pub fn new(bytes: [u8; 8]) -> Result<Self, NotAscii> {
        if bytes.iter().all(u8::is_ascii_graphic) { Ok(Self(bytes)) } else { Err(NotAscii) }
    }

    /// The eight bytes as they stand in the image.
    #[must_use]
    pub const fn bytes(&self) -> [u8; 8] {
        self.0
    }
}

impl fmt::Display for Magic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| fmt::Write::write_char(f, char::from(*byte)))
    }
}

/// The bytes are not visible ASCII characters and so not a [`Magic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a magic is eight visible ASCII characters")]
pub struct NotAscii;

/// Reads what `source` says it is for, without believing anything else of it.
///
/// Reads eight bytes at offset 0. `None` where the source is too short for an image or its first
/// bytes are no magic; most disks of a machine are that.
///
/// # Errors
///
/// Those of the reads.
pub fn probe(source: &(impl ReadAt + ?Sized)) -> io::Result<Option<Magic>> {
    if source.size()? < crate::HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; 8];
    source.read_exact_at(&mut bytes, 0)?;
    Ok(Magic::new(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_ascii_is_a_magic() {
        assert_eq!(Magic::new(*b"initdata"), Ok(Magic::INITDATA));
        for bytes in [[0; 8], *b"init dat", *b"initdat\n", *b"initdat\xff"] {
            assert_eq!(Magic::new(bytes), Err(NotAscii), "{bytes:?}");
        }
        assert_eq!(Magic::IMAGEPULLER.to_string(), "imgpullr");
    }

    #[test]
    fn probe_reads_no_more_than_it_needs() {
        let whole = probe(b"imgpullr\0\0\0\0\0\0\0\0".as_slice()).unwrap();
        assert_eq!(whole, Some(Magic::IMAGEPULLER));
        // No room for a header; nothing; a blank disk.
        for bytes in [&b"imgpullr"[..], b"", &[0; 4096]] {
            assert_eq!(probe(bytes).unwrap(), None);
        }
    }
}
