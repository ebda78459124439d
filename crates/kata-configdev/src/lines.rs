//! Lines: where in a text a byte stands, and how to keep a message on one.

use std::fmt::Write;

/// The line, counted from 1, that holds the byte at `offset`.
#[must_use]
pub fn line_of(text: &[u8], offset: usize) -> usize {
    let before = &text[..offset.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// `message` without control characters.
///
/// Kata logs each line of the hypervisor's standard error as one record, and parts of a message (a
/// path in a pod's annotation, say) come from people who should not be able to forge one.
#[must_use]
pub fn on_one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for character in message.trim_end().chars() {
        match character {
            '\n' => line.push(' '),
            control if control.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(line, "{}", control.escape_default());
            }
            other => line.push(other),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_from_one() {
        for (offset, line) in [(0, 1), (1, 1), (2, 2), (3, 3), (4, 3), (99, 3)] {
            assert_eq!(line_of(b"a\n\nb", offset), line, "offset {offset}");
        }
    }

    #[test]
    fn no_control_character_passes() {
        assert_eq!(
            on_one_line("a\nb\r\x1b[2Jc\u{85}é\n"),
            "a b\\r\\u{1b}[2Jc\\u{85}é"
        );
    }
}
