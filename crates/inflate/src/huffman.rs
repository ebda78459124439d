//! Tables that tell a symbol of a deflate stream from the next bits (RFC 1951, section 3.2.2).
//!
//! The first bits select an entry; codes longer than that continue in a second table in the same
//! array. An entry says how many bits the code has and what the symbol means, so the decoder looks
//! at nothing else.

/// A symbol's meaning and how many bits it takes:
///
/// ```text
/// bits 0-5    bits of the code and of what follows it
///      6      invalid
///      7      end
///      8-13   bits of the code
///      14     link
///      15     literal
///      16-31  value
/// ```
///
/// The two numbers of bits stand where the processor looks for them when it shifts by an entry, and
/// ignores the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u32);

const INVALID: u32 = 1 << 6;
const END: u32 = 1 << 7;
const LINK: u32 = 1 << 14;
const LITERAL: u32 = 1 << 15;

/// The longest code.
const MAX_CODE_BITS: usize = 15;

/// The most symbols of a code.
pub(crate) const MAX_SYMBOLS: usize = 288;

impl Entry {
    pub(crate) const INVALID: Self = Self(INVALID);
    pub(crate) const END: Self = Self(END);

    pub(crate) const fn literal(value: u8) -> Self {
        Self(LITERAL | (value as u32) << 16)
    }

    /// A number to which `extra` following bits are added.
    pub(crate) const fn number(base: u16, extra: u8) -> Self {
        Self((base as u32) << 16 | extra as u32)
    }

    const fn link(start: usize, more: u32) -> Self {
        Self(LINK | (start as u32) << 16 | more)
    }

    /// The same with a code.
    const fn with_code(self, bits: u32) -> Self {
        Self((self.0 + bits) | bits << 8)
    }

    pub(crate) fn is_literal(self) -> bool {
        self.0 & LITERAL != 0
    }

    pub(crate) fn is_link(self) -> bool {
        self.0 & LINK != 0
    }

    pub(crate) fn is_end(self) -> bool {
        self.0 & END != 0
    }

    pub(crate) fn is_invalid(self) -> bool {
        self.0 & INVALID != 0
    }

    /// Whether it is nothing but a base and a number of bits.
    pub(crate) fn is_number(self) -> bool {
        self.0 & (LITERAL | LINK | END | INVALID) == 0
    }

    /// The length of the code.
    pub(crate) fn code_bits(self) -> u32 {
        self.0 >> 8 & 63
    }

    /// How many bits follow the code.
    pub(crate) fn extra_bits(self) -> u32 {
        (self.0 & 63) - self.code_bits()
    }

    pub(crate) fn value(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// The number that an entry means at the beginning of some bits.
    #[inline(always)]
    pub(crate) fn number_in(self, bits: u64) -> usize {
        let both = bits & (1u64.wrapping_shl(self.0) - 1);
        self.value() + both.wrapping_shr(self.0 >> 8) as usize
    }

    /// What is left when code and number are taken.
    #[inline(always)]
    pub(crate) fn drop_from(self, bits: u64) -> u64 {
        bits.wrapping_shr(self.0)
    }

    /// How many bits are left then; only the lowest six bits of it, and of `count`, mean anything.
    #[inline(always)]
    pub(crate) fn count_down(self, count: u32) -> u32 {
        count.wrapping_sub(self.0)
    }
}

/// Entries for a code; `SIZE` is a power of two, and more than the first table and all second ones
/// can need.
pub(crate) struct Table<const ROOT_BITS: u32, const SIZE: usize> {
    entries: [Entry; SIZE],
}

impl<const ROOT_BITS: u32, const SIZE: usize> Table<ROOT_BITS, SIZE> {
    pub(crate) const EMPTY: Self = Self { entries: [Entry::INVALID; SIZE] };

    /// The entry for the next bits; where it is a link, [`Table::linked`] has the rest after its
    /// bits were taken.
    #[inline(always)]
    pub(crate) fn at(&self, bits: u64) -> Entry {
        let mask = (1u64 << ROOT_BITS) - 1;
        self.entries[(bits & mask) as usize & (SIZE - 1)]
    }

    /// The entry that a link leads to.
    #[inline(always)]
    pub(crate) fn linked(&self, link: Entry, bits: u64) -> Entry {
        let mask = (1usize << link.extra_bits()) - 1;
        self.entries[(link.value() + (bits as usize & mask)) & (SIZE - 1)]
    }

    /// The entry for the next code and how many bits that has, if all of them are among the `count`
    /// bits that are there.
    #[inline(always)]
    pub(crate) fn next(&self, bits: u64, count: u32) -> Option<(Entry, u32)> {
        let mut entry = self.at(bits);
        let mut taken = entry.code_bits();
        if entry.is_link() && taken <= count {
            entry = self.linked(entry, bits >> taken);
            taken += entry.code_bits();
        }
        // Bits that are not there yet read as zeros, which can only make the code a longer one.
        (taken <= count && !entry.is_link()).then_some((entry, taken))
    }

    /// Fills the table from the lengths of the codes, where zero means that a symbol does not
    /// occur. `meanings` has an entry for each symbol. `may_be_single` allows a code with one or no
    /// symbol, which leaves bits without a meaning.
    pub(crate) fn build(
        &mut self,
        lengths: &[u8],
        meanings: &[Entry],
        may_be_single: bool,
    ) -> Result<(), &'static str> {
        let Codes { first, ends, order } = Codes::new(lengths, may_be_single)?;
        self.entries[0] = Entry::INVALID;
        let mut at = 0;
        for bits in 1..=ROOT_BITS {
            // One bit more: what is known so far holds whatever it is.
            let known = 1 << (bits - 1);
            self.entries.copy_within(..known, known);
            let symbols = &order[at..ends[bits as usize]];
            for (code, &symbol) in (first[bits as usize]..).zip(symbols) {
                let place = usize::from(code.reverse_bits() >> (16 - bits));
                self.entries[place & (SIZE - 1)] = meanings[usize::from(symbol)].with_code(bits);
            }
            at = ends[bits as usize];
        }
        self.build_links(&first, &ends, &order, meanings)
    }

    /// The codes that are longer than the first table's bits.
    fn build_links(
        &mut self,
        first: &[u16; MAX_CODE_BITS + 1],
        ends: &[usize; MAX_CODE_BITS + 1],
        order: &[u16; MAX_SYMBOLS],
        meanings: &[Entry],
    ) -> Result<(), &'static str> {
        let root_size = 1usize << ROOT_BITS;
        let (mut used, mut linked) = (root_size, None);
        for bits in ROOT_BITS as usize + 1..=MAX_CODE_BITS {
            for (number, &symbol) in order[ends[bits - 1]..ends[bits]].iter().enumerate() {
                let code = (first[bits] + number as u16).reverse_bits() >> (16 - bits);
                let root = usize::from(code) & (root_size - 1);
                // Codes with the same beginning come one after another, the shortest first.
                if linked != Some(root) {
                    let more = link_bits(ROOT_BITS as usize, ends, bits, number);
                    self.entries[root] = Entry::link(used, more).with_code(ROOT_BITS);
                    used += 1 << more;
                    linked = Some(root);
                }
                let link = self.entries[root];
                let places = link.value()..link.value() + (1 << link.extra_bits());
                let places = self.entries.get_mut(places);
                let places = places.ok_or("the table of a code is too large")?;
                let code_bits = bits as u32 - ROOT_BITS;
                let places = places.iter_mut().skip(usize::from(code) >> ROOT_BITS);
                for place in places.step_by(1 << code_bits) {
                    *place = meanings[usize::from(symbol)].with_code(code_bits);
                }
            }
        }
        Ok(())
    }
}

/// How many bits a second table needs that begins with the symbol `number` of those with `bits`: it
/// is full when the codes that follow fill it.
fn link_bits(
    root_bits: usize,
    ends: &[usize; MAX_CODE_BITS + 1],
    bits: usize,
    number: usize,
) -> u32 {
    let mut more = bits - root_bits;
    let mut free = (1usize << more).saturating_sub(ends[bits] - ends[bits - 1] - number);
    while free > 0 && root_bits + more < MAX_CODE_BITS {
        more += 1;
        let longer = root_bits + more;
        free = (free * 2).saturating_sub(ends[longer] - ends[longer - 1]);
    }
    more as u32
}

/// Symbols in the order of their codes.
struct Codes {
    /// The first code of each length.
    first: [u16; MAX_CODE_BITS + 1],
    /// Where the symbols with each length end in `order`.
    ends: [usize; MAX_CODE_BITS + 1],
    order: [u16; MAX_SYMBOLS],
}

impl Codes {
    fn new(lengths: &[u8], may_be_single: bool) -> Result<Self, &'static str> {
        let mut counts = [0usize; MAX_CODE_BITS + 1];
        for &length in lengths {
            counts[usize::from(length) & 15] += 1;
        }
        counts[0] = 0;
        let mut first = [0; MAX_CODE_BITS + 1];
        let mut ends = [0; MAX_CODE_BITS + 1];
        let (mut code, mut free, mut longest) = (0, 1, 0);
        for bits in 1..=MAX_CODE_BITS {
            code = (code + counts[bits - 1]) << 1;
            first[bits] = code as u16;
            // Where they begin, as long as none is placed.
            ends[bits] = ends[bits - 1] + counts[bits - 1];
            if counts[bits] > free * 2 {
                return Err("a code has more symbols than its lengths allow");
            }
            free = free * 2 - counts[bits];
            if counts[bits] > 0 {
                longest = bits;
            }
        }
        if free > 0 && (longest > 1 || !may_be_single) {
            return Err("a code is incomplete");
        }
        let mut order = [0; MAX_SYMBOLS];
        for (symbol, &length) in lengths.iter().enumerate() {
            if length > 0 {
                let end = &mut ends[usize::from(length) & 15];
                order[*end] = symbol as u16;
                *end += 1;
            }
        }
        Ok(Self { first, ends, order })
    }
}
