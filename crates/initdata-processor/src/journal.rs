//! Log lines, and what makes any text one line.

use std::fmt::{self, Write as _};
use std::io::Write;

use clap::ValueEnum;
use foreign_text::one_line;

/// The longest line for the kernel's log; its own limit is 1024 with a prefix.
const MAX_KMSG_BYTES: usize = 900;

/// Writes one line per event: the device, what was expected, what was found; never content.
///
/// Lines are safe to show: nothing from a disk can forge a second line or steer a terminal.
pub struct Journal<'a> {
    sink: &'a mut dyn Write,
    log: Log,
    verbose: bool,
}

/// Where log lines go, and so how they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Log {
    /// Standard error
    Stderr,
    /// The kernel's log, for guests without a journal
    // Each line is one write, and begins with its level as a number in angle brackets.
    Kmsg,
}

impl fmt::Debug for Journal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("log", &self.log).finish_non_exhaustive()
    }
}

impl<'a> Journal<'a> {
    /// Writes to `sink`; [`Journal::detail`] only if `verbose`.
    pub fn new(sink: &'a mut dyn Write, log: Log, verbose: bool) -> Self {
        Self { sink, log, verbose }
    }

    /// Something failed.
    pub fn error(&mut self, text: impl fmt::Display) {
        self.line(3, "error: ", &text);
    }

    /// Something is not as it should be, and the work goes on.
    pub fn warn(&mut self, text: impl fmt::Display) {
        self.line(4, "warning: ", &text);
    }

    /// A step is done.
    pub fn info(&mut self, text: impl fmt::Display) {
        self.line(6, "", &text);
    }

    /// A detail that helps to find a fault.
    pub fn detail(&mut self, text: impl fmt::Display) {
        if self.verbose {
            self.line(7, "detail: ", &text);
        }
    }

    /// `level` is the kernel's, from 0 for an emergency to 7.
    fn line(&mut self, level: u8, word: &str, text: &dyn fmt::Display) {
        let text = format!("initdata-processor: {word}{text}");
        let text = match self.log {
            Log::Stderr => line(&text, usize::MAX),
            Log::Kmsg => line(&format!("<{level}>{text}"), MAX_KMSG_BYTES),
        };
        // A log that cannot be written must not stop the verification.
        let _ = self.sink.write_all(format!("{text}\n").as_bytes());
    }
}

/// `text` on one line of printable ASCII, of at most `max_bytes`: for a log, a policy, an error
/// file.
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
    fn one_event_is_one_line() {
        let mut sink = Vec::new();
        let mut journal = Journal::new(&mut sink, Log::Stderr, false);
        journal.error("vda: a\nfake line\u{1b}[2J \u{202e}");
        journal.detail("not shown");
        journal.info("plain");
        assert_eq!(
            String::from_utf8(sink).unwrap(),
            "initdata-processor: error: vda: a fake line\\u{1b}[2J \\u{202e}\n\
             initdata-processor: plain\n"
        );
    }
    #[test]
    fn the_kernel_gets_levels_and_lines_that_it_takes() {
        let mut sink = Vec::new();
        let mut journal = Journal::new(&mut sink, Log::Kmsg, true);
        journal.error("a");
        journal.warn("b\n<0>c");
        journal.info("d".repeat(5000));
        journal.detail("e");
        let text = String::from_utf8(sink).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "<3>initdata-processor: error: a");
        assert_eq!(lines[1], "<4>initdata-processor: warning: b <0>c");
        assert!(lines[2].starts_with("<6>initdata-processor: ddd") && lines[2].len() == 900);
        assert_eq!(lines[3], "<7>initdata-processor: detail: e");
    }

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
