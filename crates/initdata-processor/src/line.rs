//! A message in a place that holds one line of limited length: a log, a policy, an error file.

use foreign_text::one_line;

/// `text` on one line, safe to show, of at most `max_bytes`.
///
/// Everything that may quote a disk goes through this.
#[must_use]
pub fn line(text: &str, max_bytes: usize) -> String {
    let mut line = one_line(text).to_string();
    line.truncate(line.floor_char_boundary(max_bytes));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_that_ends_between_two_characters() {
        assert_eq!(
            line("a\nb\u{1b}[2J \u{202e}", 99),
            "a b\\u{1b}[2J \\u{202e}"
        );
        for (max_bytes, expected) in [(0, ""), (1, "a"), (2, "a"), (3, "a\u{e9}"), (9, "a\u{e9}")] {
            assert_eq!(line("a\u{e9}", max_bytes), expected);
        }
    }
}
