//! Deflate and gzip decoded as fast as safe code can.
//!
//! [`Gzip`] reads gzip members (RFC 1952) from any [`BufRead`](std::io::BufRead) and fills the
//! caller's buffers with the plain bytes. The input is hostile: no input allocates memory, reaches
//! beyond a buffer or panics, and a broken stream is an error. There is no limit on how much comes
//! out; the caller stops when it has enough.
//!
//! Not here: encoding, zlib's own header, and reading without waiting for the source.
//!
//! - `gzip`: headers, checksums, and several members one after another.
//! - `deflate`: the blocks of one stream (RFC 1951); `deflate::meanings`: what its symbols mean.
//! - `huffman`: the tables that find a symbol from the next bits.
//!
//! The fuzz target `inflate` and the unit tests compare every verdict and every byte with zlib-rs.

mod deflate;
mod gzip;
mod huffman;

pub use deflate::HISTORY_BYTES;
pub use gzip::Gzip;
