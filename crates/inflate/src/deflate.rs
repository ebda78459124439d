//! The deflate format (RFC 1951), decoded as fast as safe code can.
//!
//! Every byte of it is an attacker's: the digest of a blob is known only at its end. So there is no
//! unsafe code here, and nothing is allocated that depends on the input. Two things make it fast:
//! output goes into large buffers that begin with the history, so that a copy never wraps; and the
//! inner loop runs while there is room for the longest step, in the input and in the output, so
//! that it asks for it once. Everything else is decoded bit by bit.

use std::io::{self, BufRead};

use super::huffman::{Entry, MAX_SYMBOLS, Table};
use meanings::{DISTANCES, LENGTHS, LENGTHS_ORDER, SYMBOLS};

mod meanings;

/// How far back a copy may reach.
pub const HISTORY_BYTES: usize = 32 << 10;

/// More than one step of the inner loop writes: three literals, the longest copy, and what is
/// copied too much.
const STEP_BYTES: usize = 3 + 258 + 16;

/// More than one step of the inner loop reads.
const STEP_INPUT_BYTES: usize = 24;

const UNKNOWN: &str = "a symbol is unknown";
const TOO_FAR: &str = "a copy reaches back too far";

type Symbols = Table<11, 4096>;
type Distances = Table<8, 1024>;

/// A decoder that takes its input from a source and waits for it.
pub(crate) struct Inflate<R> {
    source: R,
    /// Bits taken from the source but not used, the next one lowest.
    bits: u64,
    bit_count: u32,
    block: Block,
    is_last: bool,
    symbols: Box<Symbols>,
    distances: Box<Distances>,
    /// Whether the tables are those that the format itself defines.
    is_fixed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// The next bits are the header of a block.
    None,
    /// Bytes that are not compressed; how many are left.
    Stored(usize),
    Coded,
    /// There is no further block.
    Done,
}

impl<R: BufRead> Inflate<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            bits: 0,
            bit_count: 0,
            block: Block::None,
            is_last: false,
            symbols: Box::new(Symbols::EMPTY),
            distances: Box::new(Distances::EMPTY),
            is_fixed: false,
        }
    }

    /// Expects another stream in the same source.
    pub(crate) fn restart(&mut self) {
        (self.block, self.is_last) = (Block::None, false);
    }

    /// Whether the stream is at its end.
    pub(crate) fn is_done(&self) -> bool {
        self.block == Block::Done
    }

    /// The next whole byte of the source, which is not compressed; nothing at the end.
    pub(crate) fn byte(&mut self) -> io::Result<Option<u8>> {
        let unaligned = self.bit_count % 8;
        self.drop_bits(unaligned);
        if self.bit_count > 0 {
            return self.take(8).map(|byte| Some(byte as u8));
        }
        let byte = self.source.fill_buf()?.first().copied();
        self.source.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Decodes into `out` from `at` on, until it is full or the stream ends, and says up to where.
    /// Copies reach back to `start`. A buffer counts as full before it is.
    pub(crate) fn inflate(
        &mut self,
        out: &mut [u8],
        mut at: usize,
        start: usize,
    ) -> io::Result<usize> {
        while out.len() - at >= STEP_BYTES {
            match self.block {
                Block::Done => break,
                Block::None if self.is_last => self.block = Block::Done,
                Block::None => self.block = self.header()?,
                Block::Stored(0) => self.block = Block::None,
                Block::Stored(left) => {
                    let stored = self.stored(&mut out[at..], left)?;
                    self.block = Block::Stored(left - stored);
                    at += stored;
                }
                Block::Coded => {
                    at = self.run(out, at, start)?;
                    if self.block == Block::Coded && out.len() - at >= STEP_BYTES {
                        at = self.step(out, at, start)?;
                    }
                }
            }
        }
        Ok(at)
    }

    fn header(&mut self) -> io::Result<Block> {
        self.is_last = self.take(1)? == 1;
        match self.take(2)? {
            0 => {
                let unaligned = self.bit_count % 8;
                self.drop_bits(unaligned);
                let (length, check) = (self.take(16)?, self.take(16)?);
                if length != !check & 0xffff {
                    return Err(broken("the length of a stored block is not confirmed"));
                }
                Ok(Block::Stored(length as usize))
            }
            1 => {
                self.fixed_tables()?;
                Ok(Block::Coded)
            }
            2 => {
                self.is_fixed = false;
                self.dynamic_tables()?;
                Ok(Block::Coded)
            }
            _ => Err(broken("a block is of an unknown type")),
        }
    }

    fn fixed_tables(&mut self) -> io::Result<()> {
        if self.is_fixed {
            return Ok(());
        }
        let mut lengths = [8; MAX_SYMBOLS];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        let symbols = self.symbols.build(&lengths, &SYMBOLS, false);
        let distances = self.distances.build(&[5; 32], &DISTANCES, false);
        self.is_fixed = true;
        symbols.and(distances).map_err(broken)
    }

    /// Codes that the block brings along, their lengths in a code of their own (RFC 1951,
    /// section 3.2.7).
    fn dynamic_tables(&mut self) -> io::Result<()> {
        let symbols = self.take(5)? as usize + 257;
        let distances = self.take(5)? as usize + 1;
        let count = self.take(4)? as usize + 4;
        if symbols > 286 || distances > 30 {
            return Err(broken("a block has too many codes"));
        }
        let mut lengths = [0; 19];
        for &place in &LENGTHS_ORDER[..count] {
            lengths[place] = self.take(3)? as u8;
        }
        let mut table = Table::<7, 128>::EMPTY;
        table.build(&lengths, &LENGTHS, false).map_err(broken)?;
        let mut lengths = [0u8; 286 + 30];
        let (mut at, end) = (0, symbols + distances);
        while at < end {
            // No code is long enough for a link.
            let entry = table.at(self.bits);
            if entry.code_bits() > self.bit_count {
                self.more()?;
                continue;
            }
            self.drop_bits(entry.code_bits());
            let symbol = entry.value();
            let (length, repeat) = match symbol {
                16 if at == 0 => {
                    return Err(broken("the first length of a code is a repeated one"));
                }
                16 => (lengths[at - 1], self.take(2)? as usize + 3),
                17 => (0, self.take(3)? as usize + 3),
                18 => (0, self.take(7)? as usize + 11),
                length => (length as u8, 1),
            };
            let repeated = lengths[..end].get_mut(at..at + repeat);
            repeated.ok_or_else(|| broken("a block has more lengths than codes"))?.fill(length);
            at += repeat;
        }
        if lengths[256] == 0 {
            return Err(broken("a block has no code for its end"));
        }
        let built = self.symbols.build(&lengths[..symbols], &SYMBOLS, true);
        built.map_err(broken)?;
        let built = self.distances.build(&lengths[symbols..end], &DISTANCES, true);
        built.map_err(broken)
    }

    fn stored(&mut self, out: &mut [u8], left: usize) -> io::Result<usize> {
        if self.bit_count > 0 {
            out[0] = self.take(8)? as u8;
            return Ok(1);
        }
        let found = self.source.fill_buf()?;
        if found.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = left.min(found.len()).min(out.len());
        out[..length].copy_from_slice(&found[..length]);
        self.source.consume(length);
        Ok(length)
    }

    /// The inner loop: goes on while input and output have room for a whole step.
    fn run(&mut self, out: &mut [u8], mut at: usize, start: usize) -> io::Result<usize> {
        let input = self.source.fill_buf()?;
        let (symbols, distances) = (&*self.symbols, &*self.distances);
        let (mut bits, mut count, mut position) = (self.bits, self.bit_count, 0);
        let mut failure = None;
        // Makes at least 56 bits of it. Those above `count` are right too, and the same again with
        // the next refill.
        macro_rules! refill {
            ($next:expr) => {{
                let mut word = [0; 8];
                word.copy_from_slice(&$next[..8]);
                bits |= u64::from_le_bytes(word).wrapping_shl(count);
                let taken = ((count ^ 63) >> 3 & 7) as usize;
                position += taken;
                count |= 56;
                taken
            }};
        }
        macro_rules! take {
            ($entry:expr) => {
                bits = $entry.drop_from(bits);
                count = $entry.count_down(count);
            };
        }
        macro_rules! literal {
            ($entry:expr) => {
                take!($entry);
                out[at] = $entry.value() as u8;
                at += 1;
            };
        }
        let mut entry = Entry::INVALID;
        if let Some(next) = input.first_chunk::<STEP_INPUT_BYTES>() {
            refill!(next);
            entry = symbols.at(bits);
        }
        // Here `entry` is what the bits begin with. It is looked up early, while a copy is still
        // going on.
        while out.len() - at >= STEP_BYTES {
            let next = input.get(position..).and_then(<[u8]>::first_chunk);
            let Some::<&[u8; STEP_INPUT_BYTES]>(next) = next else {
                break;
            };
            let taken = refill!(next);
            if entry.is_literal() {
                literal!(entry);
                entry = symbols.at(bits);
                if entry.is_literal() {
                    literal!(entry);
                    entry = symbols.at(bits);
                    if entry.is_literal() {
                        literal!(entry);
                        entry = symbols.at(bits);
                        continue;
                    }
                }
            }
            // Two literals took 22 bits at most, and code and length have 20.
            if !entry.is_number() {
                if entry.is_link() {
                    bits >>= entry.code_bits();
                    count = count.wrapping_sub(entry.code_bits());
                    entry = symbols.linked(entry, bits);
                }
                if entry.is_literal() {
                    literal!(entry);
                    entry = symbols.at(bits);
                    continue;
                }
                if !entry.is_number() {
                    take!(entry);
                    if entry.is_end() {
                        self.block = Block::None;
                    } else {
                        failure = Some(UNKNOWN);
                    }
                    break;
                }
            }
            let length = entry.number_in(bits);
            take!(entry);
            refill!(next[taken..]);
            entry = distances.at(bits);
            if entry.is_link() {
                bits >>= entry.code_bits();
                count = count.wrapping_sub(entry.code_bits());
                entry = distances.linked(entry, bits);
            }
            let distance = entry.number_in(bits);
            if entry.is_invalid() || distance > at - start {
                failure = Some(TOO_FAR);
                break;
            }
            take!(entry);
            // At least 28 bits are left of 56.
            entry = symbols.at(bits);
            copy(out, at, distance, length);
            at += length;
        }
        self.bit_count = count & 63;
        self.bits = bits & ((1 << self.bit_count) - 1);
        self.source.consume(position);
        failure.map_or(Ok(at), |failure| Err(broken(failure)))
    }

    /// One symbol where the source's piece is near its end.
    fn step(&mut self, out: &mut [u8], at: usize, start: usize) -> io::Result<usize> {
        let entry = self.code(|decoder| decoder.symbols.next(decoder.bits, decoder.bit_count))?;
        if entry.is_literal() {
            out[at] = entry.value() as u8;
            return Ok(at + 1);
        }
        if entry.is_end() {
            self.block = Block::None;
            return Ok(at);
        }
        if !entry.is_number() {
            return Err(broken(UNKNOWN));
        }
        let length = entry.value() + self.take(entry.extra_bits())? as usize;
        let entry = self.code(|decoder| decoder.distances.next(decoder.bits, decoder.bit_count))?;
        let distance = entry.value() + self.take(entry.extra_bits())? as usize;
        if entry.is_invalid() || distance > at - start {
            return Err(broken(TOO_FAR));
        }
        copy(out, at, distance, length);
        Ok(at + length)
    }

    /// Takes a code out of a table, with no more bits from the source than it has.
    #[inline(always)]
    fn code(&mut self, next: impl Fn(&Self) -> Option<(Entry, u32)>) -> io::Result<Entry> {
        loop {
            if let Some((entry, bits)) = next(self) {
                self.drop_bits(bits);
                return Ok(entry);
            }
            self.more()?;
        }
    }

    fn take(&mut self, count: u32) -> io::Result<u32> {
        while self.bit_count < count {
            self.more()?;
        }
        let bits = self.bits & ((1 << count) - 1);
        self.drop_bits(count);
        Ok(bits as u32)
    }

    fn drop_bits(&mut self, count: u32) {
        self.bits >>= count;
        self.bit_count -= count;
    }

    /// Takes another byte from the source.
    fn more(&mut self) -> io::Result<()> {
        let Some(&byte) = self.source.fill_buf()?.first() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        self.source.consume(1);
        self.bits |= u64::from(byte) << self.bit_count;
        self.bit_count += 8;
        Ok(())
    }
}

/// Repeats what was `distance` bytes before. May write some bytes more, for which there is room.
#[inline(always)]
fn copy(out: &mut [u8], at: usize, distance: usize, length: usize) {
    let from = at - distance;
    if distance >= 16 {
        // No piece reaches into itself.
        let mut done = 0;
        while done < length {
            out.copy_within(from + done..from + done + 16, at + done);
            done += 16;
        }
    } else if distance >= 8 {
        let mut done = 0;
        while done < length {
            out.copy_within(from + done..from + done + 8, at + done);
            done += 8;
        }
    } else if distance == 1 {
        let byte = out[from];
        out[at..at + length].fill(byte);
    } else {
        for place in at..at + length {
            out[place] = out[place - distance];
        }
    }
}

fn broken(rule: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, rule)
}

#[cfg(test)]
mod tests;
