//! The escapes of a text.

use zeroize::Zeroizing;

use super::Text;

/// Resolves the escapes between two quotes; `None` if one of them is none.
pub(super) fn unescape(written: &str) -> Option<Text<'_>> {
    if !written.contains('\\') {
        return Some(Text::Borrowed(written));
    }
    // No escape is shorter than what it stands for, so that this never grows.
    let mut text = Zeroizing::new(String::with_capacity(written.len()));
    let mut rest = written;
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        let (character, length) = character(escape.as_bytes())?;
        text.push(character);
        rest = &escape[length..];
    }
    text.push_str(rest);
    Some(Text::Unescaped(text))
}

/// The character that the bytes behind a backslash begin with, and how many of them it takes.
fn character(escape: &[u8]) -> Option<(char, usize)> {
    let character = match escape.first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return utf16(escape),
        _ => return None,
    };
    Some((character, 1))
}

/// `u` and four digits, or two of these with a backslash between them: a surrogate pair.
fn utf16(escape: &[u8]) -> Option<(char, usize)> {
    let first = code_unit(escape)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 5));
    }
    let second = code_unit(escape.get(5..)?.strip_prefix(b"\\")?)?;
    let pair = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((character, 11))
}

fn code_unit(escape: &[u8]) -> Option<u32> {
    let digits = escape.strip_prefix(b"u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}
