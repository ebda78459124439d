//! Base64 in one spelling: the standard alphabet with padding, no white space, no bit left over.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Decodes; `None` for any other spelling.
///
/// Go's decoder, which containers/image has, skips line breaks and ignores the bits that are left
/// over. So one signature has many texts there; here it has one.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_spelling() {
        assert_eq!(decode("/+8="), Some(vec![0xff, 0xef]));
        assert_eq!(decode(""), Some(vec![]));
        for text in ["/+8", "/+9=", "_-8=", "/+8=\n", " /+8=", "/+\r\n8=", "/+8=="] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
