//! A message in a place that holds one line of limited length: a log, a policy, an error file.

use std::fmt::Write as _;

use foreign_text::one_line;

/// `text` on one line of printable ASCII, of at most `max_bytes`.
///
/// Everything that may quote a disk goes through this. It is shown as the host shows it, and
/// letters beyond ASCII are escaped too: the kernel's log and serial consoles know no others.
#[must_use]
pub fn line(text: &str, max_bytes: usize) -> String {
    let trimmed = text.trim_end();
    // Most messages are such a line already, and the way below takes 150 instructions a character.
    if trimmed.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return trimmed[..trimmed.len().min(max_bytes)].to_owned();
    }
    let mut line = String::new();
    for character in one_line(text).to_string().chars() {
        match character {
            ' '..='~' => line.push(character),
            '…' => line.push_str("..."),
            // Writing to a string cannot fail.
            _ => _ = write!(line, "{}", character.escape_unicode()),
        }
    }
    line.truncate(max_bytes);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_printable_ascii() {
        for (text, max_bytes, expected) in [
            ("a\nb\u{1b}[2J \u{202e}", 99, "a b\\u{1b}[2J \\u{202e}"),
            ("caf\u{e9} and more…", 99, "caf\\u{e9} and more..."),
            ("caf\u{e9}", 4, "caf\\"),
            ("plain, and \"quoted\" \n ", 99, "plain, and \"quoted\""),
            ("plain", 3, "pla"),
            ("", 0, ""),
        ] {
            assert_eq!(line(text, max_bytes), expected);
        }
    }
}
