//! The words of a value: quotes and escape sequences.

use std::iter::Peekable;
use std::str::Chars;

use zeroize::Zeroizing;

use super::syntax::WHITESPACE;

/// A quote without an end, or an escape sequence that systemd does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The words of a value. Nothing follows a malformed one.
pub(super) fn words(value: &str) -> impl Iterator<Item = Result<Zeroizing<String>, Malformed>> {
    let mut rest = value.chars().peekable();
    let capacity = value.len();
    let mut is_over = false;
    std::iter::from_fn(move || {
        while rest.next_if(|next| WHITESPACE.contains(next)).is_some() {}
        if is_over || rest.peek().is_none() {
            return None;
        }
        let word = word(&mut rest, capacity);
        is_over = word.is_err();
        Some(word)
    })
}

/// Reads up to a blank outside of quotes. The buffer never moves, so that no copy of a secret is
/// left behind.
fn word(rest: &mut Peekable<Chars<'_>>, capacity: usize) -> Result<Zeroizing<String>, Malformed> {
    let mut word = Zeroizing::new(String::with_capacity(capacity));
    let mut quote = None;
    while let Some(next) = rest.next() {
        match (quote, next) {
            (_, '\\') => word.push(escaped(rest)?),
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(next),
            (None, blank) if WHITESPACE.contains(&blank) => break,
            (_, other) => word.push(other),
        }
    }
    if quote.is_some() {
        return Err(Malformed);
    }
    Ok(word)
}

/// What an escape sequence stands for.
fn escaped(rest: &mut Peekable<Chars<'_>>) -> Result<char, Malformed> {
    let kind = rest.next().ok_or(Malformed)?;
    Ok(match kind {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        's' => ' ',
        '\\' | '"' | '\'' => kind,
        'x' => digits(rest, 2, 16, 0, 0x7f)?,
        'u' => digits(rest, 4, 16, 0, char::MAX.into())?,
        'U' => digits(rest, 8, 16, 0, char::MAX.into())?,
        '0'..='3' => digits(rest, 2, 8, kind.to_digit(8).unwrap_or(0), 0x7f)?,
        _ => return Err(Malformed),
    })
}

/// Reads digits behind a first one. Single bytes above ASCII, which are part of a character, are
/// not read here.
fn digits(
    rest: &mut Peekable<Chars<'_>>,
    count: usize,
    radix: u32,
    first: u32,
    max: u32,
) -> Result<char, Malformed> {
    let mut value = first;
    for _ in 0..count {
        let digit = rest.next().and_then(|next| next.to_digit(radix));
        let next = value.checked_mul(radix).zip(digit);
        value = next.and_then(|(value, digit)| value.checked_add(digit)).ok_or(Malformed)?;
    }
    match value {
        1.. if value <= max => char::from_u32(value).ok_or(Malformed),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_systemd_quotes_them() {
        for (value, expected) in [
            ("A=1 B=2\tC=3", &["A=1", "B=2", "C=3"][..]),
            ("\"A=a b\" 'B=c d'", &["A=a b", "B=c d"]),
            ("A=\"a b\"c", &["A=a bc"]),
            ("'A=\"' \"B='\"", &["A=\"", "B='"]),
            (r#"A=\x41\u00e9\101\s\"\'\\"#, &["A=A\u{e9}A \"'\\"]),
            ("'A=\\x41'", &["A=A"]),
            ("'' A", &["", "A"]),
            ("  ", &[]),
            ("A \"B", &["A", "!"]),
            ("A\\", &["!"]),
            ("A=\\q B", &["!"]),
            ("A=\\x00", &["!"]),
            ("A=\\U0010ffff0", &["A=\u{10ffff}0"]),
            ("A=\\Uffffffff", &["!"]),
        ] {
            let found: Vec<_> = words(value)
                .map(|word| word.map_or("!".to_owned(), |word| word.to_string()))
                .collect();
            assert_eq!(found, expected, "{value}");
        }
    }
}
