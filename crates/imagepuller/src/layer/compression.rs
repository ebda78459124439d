//! The plain bytes of a layer, whatever it is compressed with.
//!
//! The first bytes decide and not the media type: builders are known to mislabel layers, and other tools unpack those.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

/// The largest window that a zstd frame may ask for: what every decoder grants by default (128 MiB).
const MAX_ZSTD_WINDOW_LOG: u32 = 27;

/// How much compressed data is buffered.
const BUFFER_BYTES: usize = 256 << 10;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What follows the first byte of a zstd frame that is to be skipped, which is one of sixteen from 0x50 on.
const ZSTD_SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];

/// A layer's plain bytes.
pub enum Decoder<R: BufRead> {
    /// Not compressed.
    Plain(R),
    /// One or several gzip members.
    Gzip(Box<MultiGzDecoder<R>>),
    /// One or several zstd frames.
    Zstd(zstd::stream::read::Decoder<'static, R>),
}

/// Looks at the first bytes and makes the decoder for them.
pub fn decode<R: Read>(mut source: R) -> io::Result<Decoder<impl BufRead>> {
    // Read apart, because the network may cut the stream anywhere, also inside a magic.
    let mut start = Vec::with_capacity(ZSTD_MAGIC.len());
    source
        .by_ref()
        .take(ZSTD_MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    let (is_gzip, is_zstd) = (
        start.starts_with(&GZIP_MAGIC),
        start.starts_with(&ZSTD_MAGIC)
            || matches!(start[..], [0x50..=0x5f, ref rest @ ..] if rest == ZSTD_SKIPPABLE_MAGIC),
    );
    let source = BufReader::with_capacity(BUFFER_BYTES, io::Cursor::new(start).chain(source));
    if is_gzip {
        return Ok(Decoder::Gzip(Box::new(MultiGzDecoder::new(source))));
    }
    if is_zstd {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
        decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
        return Ok(Decoder::Zstd(decoder));
    }
    Ok(Decoder::Plain(source))
}

impl<R: BufRead> std::fmt::Debug for Decoder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}
