//! The plain bytes of a layer, whatever it is compressed with.
//!
//! The first bytes decide and not the media type: builders are known to mislabel layers, and other
//! tools unpack those.

use std::io::{self, BufRead, Read};
use std::ops::Range;

use bytes::Bytes;
use inflate::{Gzip, HISTORY_BYTES};

use super::chunks::{Chunks, read_full};

/// The smallest buffer that a decoder fills.
pub const MIN_BUFFER_BYTES: usize = 2 * HISTORY_BYTES;

/// The largest window that a zstd frame may ask for, 32 MiB. All of it is held in memory, for each
/// layer in work. Builders use 8 MiB at most; the highest level of Go's encoder used 32 MiB
/// until 2024. More takes a deliberate `zstd --ultra -21` or `--long`.
const MAX_ZSTD_WINDOW_LOG: u32 = 25;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What follows the first byte of a zstd frame that is to be skipped, which is one of sixteen from
/// 0x50 on.
const ZSTD_SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];

/// A layer's plain bytes.
pub struct Decoder<R: BufRead>(Kind<R>);

enum Kind<R: BufRead> {
    /// Not compressed.
    Plain(R),
    /// One or several gzip members.
    Gzip(Box<Gzip<R>>),
    /// One or several zstd frames.
    Zstd(zstd::stream::read::Decoder<'static, R>),
}

/// Looks at the first bytes and makes the decoder for them.
///
/// # Errors
///
/// What the source or the decoder's library says.
pub fn decode(
    mut source: Chunks<impl Iterator<Item = Bytes>>,
) -> io::Result<Decoder<impl BufRead>> {
    // Read apart, because the network may cut the stream anywhere, also inside a magic.
    let mut start = Vec::with_capacity(ZSTD_MAGIC.len());
    source.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut start)?;
    let (is_gzip, is_zstd) = (
        start.starts_with(&GZIP_MAGIC),
        start.starts_with(&ZSTD_MAGIC)
            || matches!(start[..], [0x50..=0x5f, ref rest @ ..] if rest == ZSTD_SKIPPABLE_MAGIC),
    );
    let source = source.unread(start.into());
    Ok(Decoder(if is_gzip {
        Kind::Gzip(Box::new(Gzip::new(source)))
    } else if is_zstd {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
        decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
        Kind::Zstd(decoder)
    } else {
        Kind::Plain(source)
    }))
}

impl<R: BufRead> std::fmt::Debug for Decoder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Plain(_) => "Plain",
            Kind::Gzip(_) => "Gzip",
            Kind::Zstd(_) => "Zstd",
        })
    }
}

impl<R: BufRead> Decoder<R> {
    /// Fills a buffer of at least [`MIN_BUFFER_BYTES`] as far as it can, and says where in it the
    /// plain bytes are: nowhere at the end.
    ///
    /// # Errors
    ///
    /// A broken stream, or one that ends too early.
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<Range<usize>> {
        match &mut self.0 {
            Kind::Plain(source) => read_full(source, buffer).map(|end| 0..end),
            Kind::Gzip(decoder) => decoder.fill(buffer),
            Kind::Zstd(decoder) => match read_full(decoder, buffer) {
                Ok(end) => Ok(0..end),
                Err(error) => Err(explain(error)),
            },
        }
    }
}

/// The library's words for a window beyond the limit name neither.
fn explain(error: io::Error) -> io::Error {
    if !error.to_string().contains("too much memory") {
        return error;
    }
    let mib = 1 << (MAX_ZSTD_WINDOW_LOG - 20);
    io::Error::other(format!(
        "a zstd frame asks for a window of more than {mib} MiB; compress the layer \
        without \"--ultra\" and \"--long\""
    ))
}
