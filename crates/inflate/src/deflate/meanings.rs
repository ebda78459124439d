//! What the symbols of the format's codes mean.

use crate::huffman::{Entry, MAX_SYMBOLS};

/// In which order the lengths of the code for lengths come.
pub(super) const LENGTHS_ORDER: [usize; 19] =
    [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The symbols of the code for lengths: fifteen lengths, and three repetitions.
pub(super) const LENGTHS: [Entry; 19] = {
    let mut entries = [Entry::INVALID; 19];
    let mut at = 0;
    while at < 19 {
        entries[at] = Entry::number(at as u16, 0);
        at += 1;
    }
    entries
};

/// Bytes, the end, and lengths of copies (RFC 1951, section 3.2.5): eight without further bits,
/// then four for each number of them; the longest has a symbol of its own.
pub(super) const SYMBOLS: [Entry; MAX_SYMBOLS] = {
    let mut entries = [Entry::INVALID; MAX_SYMBOLS];
    let mut at = 0;
    while at < 256 {
        entries[at] = Entry::literal(at as u8);
        at += 1;
    }
    entries[256] = Entry::END;
    let mut base = 3;
    at = 257;
    while at < 285 {
        let extra = if at < 265 { 0 } else { (at - 261) / 4 };
        entries[at] = Entry::number(base, extra as u8);
        base += 1 << extra;
        at += 1;
    }
    entries[285] = Entry::number(258, 0);
    entries
};

/// Distances of copies: four without further bits, then two for each number of them.
pub(super) const DISTANCES: [Entry; 32] = {
    let mut entries = [Entry::INVALID; 32];
    let mut base = 1;
    let mut at = 0;
    while at < 30 {
        let extra = if at < 4 { 0 } else { at / 2 - 1 };
        entries[at] = Entry::number(base, extra as u8);
        base = base.wrapping_add(1 << extra);
        at += 1;
    }
    entries
};
