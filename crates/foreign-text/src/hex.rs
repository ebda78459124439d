//! Hexadecimal: written in lower case, read in either.

/// Writes two lower-case digits for each byte.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

/// Reads pairs of digits in either case; `None` for anything else.
#[must_use]
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    base16ct::mixed::decode_vec(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes() {
        assert_eq!(encode(&[0, 0x9f, 0xff]), "009fff");
        assert_eq!(decode("009FfF").unwrap(), [0, 0x9f, 0xff]);
        assert_eq!((encode(&[]), decode("")), (String::new(), Some(vec![])));
        for wrong in ["0", "0g", "0x00", " 00", "é", "00\n"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
