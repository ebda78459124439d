//! Foreign words in a message.
//!
//! There is one policy. A character is shown as it is only if it is visible, takes a place of its
//! own and does not change what stands beside it: letters of any script are. Everything else
//! appears as `\u{202e}` (line feeds, carriage returns and tabs as `\n`, `\r` and `\t`): controls,
//! marks of direction, line separators, spaces of other widths or none, combining marks, and what
//! Unicode has not assigned. Bytes that are not UTF-8 appear as `\xff`. What is cut ends in `…`.

use std::fmt::{self, Display, Formatter, Write};

/// How many characters are shown unless [`Shown::up_to`] says otherwise.
pub const MAX_SHOWN_CHARS: usize = 300;

/// A foreign word: text, or bytes that should be text.
pub fn shown<T: AsRef<[u8]> + ?Sized>(text: &T) -> Shown<'_> {
    Shown {
        text: text.as_ref(),
        max_chars: MAX_SHOWN_CHARS,
        is_quoted: false,
        hides_user: false,
        line_feed: "\\n",
    }
}

/// A whole message on one line: its line feeds become spaces. Not cut, because a message is made
/// of parts that are; [`Shown::up_to`] cuts it.
#[must_use]
pub fn one_line(message: &str) -> Shown<'_> {
    Shown { max_chars: usize::MAX, line_feed: " ", ..shown(message.trim_end()) }
}

/// Foreign words that are safe to display.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    text: &'a [u8],
    max_chars: usize,
    is_quoted: bool,
    hides_user: bool,
    line_feed: &'static str,
}

impl Shown<'_> {
    /// Shows at most so many characters of the text. What is shown may be ten times as long where
    /// they are escaped.
    #[must_use]
    pub fn up_to(self, max_chars: usize) -> Self {
        Self { max_chars, ..self }
    }

    /// Puts double quotes around the text and a backslash before those in it.
    #[must_use]
    pub fn quoted(self) -> Self {
        let is_quoted = true;
        Self { is_quoted, ..self }
    }

    /// Writes `[redacted]` for everything before the last `@`: people paste `user:password@host`.
    #[must_use]
    pub fn without_user(self) -> Self {
        let hides_user = true;
        Self { hides_user, ..self }
    }

    fn write_char(&self, character: char, f: &mut Formatter<'_>) -> fmt::Result {
        match character {
            '\n' => f.write_str(self.line_feed),
            '"' | '\\' if self.is_quoted => write!(f, "\\{character}"),
            ' '..='~' => f.write_char(character),
            '\r' | '\t' => write!(f, "{}", character.escape_default()),
            // The last four are letters to Unicode, and nothing to the eye.
            '\0' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => {
                write!(f, "{}", character.escape_unicode())
            }
            // Rust's own tables of what is printable.
            _ => write!(f, "{}", character.escape_debug()),
        }
    }

    fn write_text(&self, text: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
        let mut left = self.max_chars;
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                if left == 0 {
                    return f.write_char('…');
                }
                left -= 1;
                self.write_char(character, f)?;
            }
            for byte in chunk.invalid() {
                if left == 0 {
                    return f.write_char('…');
                }
                left -= 1;
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let quote = if self.is_quoted { "\"" } else { "" };
        f.write_str(quote)?;
        let user = self.text.iter().rposition(|byte| *byte == b'@');
        let start = user.filter(|_| self.hides_user);
        if start.is_some() {
            f.write_str("[redacted]")?;
        }
        self.write_text(&self.text[start.unwrap_or(0)..], f)?;
        f.write_str(quote)
    }
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}
