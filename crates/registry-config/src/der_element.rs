//! Elements of DER (X.690) in the order in which they stand, for what is read of certificates.

/// The tag of a sequence.
pub(crate) const SEQUENCE: u8 = 0x30;
/// The tag of an integer.
pub(crate) const INTEGER: u8 = 0x02;
/// The tag of a bit string.
pub(crate) const BIT_STRING: u8 = 0x03;
/// The tag of an element that is called 0 by what it stands in.
pub(crate) const CONTEXT_0: u8 = 0xa0;

/// Splits one DER element of this tag off: its content, and what follows it.
pub(crate) fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let [first, length, rest @ ..] = der else {
        return None;
    };
    if *first != tag {
        return None;
    }
    let (length, rest) = match *length {
        short @ 0..=0x7f => (usize::from(short), rest),
        // One to four bytes of length; more is longer than any document.
        long @ 0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}
