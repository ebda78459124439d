//! Log lines.

use std::fmt;
use std::io::Write;

use crate::printable;

/// Writes one line per event: the device, what was expected, what was found; never content.
///
/// Lines are made printable, so that nothing from a disk can forge a second line or move a terminal's cursor.
pub struct Journal<'a> {
    sink: &'a mut dyn Write,
    verbose: bool,
}

impl fmt::Debug for Journal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("verbose", &self.verbose)
            .finish_non_exhaustive()
    }
}

impl<'a> Journal<'a> {
    /// Writes to `sink`; [`Journal::detail`] only if `verbose`.
    pub fn new(sink: &'a mut dyn Write, verbose: bool) -> Self {
        Self { sink, verbose }
    }

    /// Something failed.
    pub fn error(&mut self, text: impl fmt::Display) {
        self.line("error: ", &text);
    }

    /// Something is not as it should be, and the work goes on.
    pub fn warn(&mut self, text: impl fmt::Display) {
        self.line("warning: ", &text);
    }

    /// A step is done.
    pub fn info(&mut self, text: impl fmt::Display) {
        self.line("", &text);
    }

    /// What only somebody who is looking for a fault wants to read.
    pub fn detail(&mut self, text: impl fmt::Display) {
        if self.verbose {
            self.line("detail: ", &text);
        }
    }

    fn line(&mut self, level: &str, text: &dyn fmt::Display) {
        let text = printable(&text.to_string());
        // A log that cannot be written must not stop the verification.
        let _ = writeln!(self.sink, "initdata-processor: {level}{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_is_one_printable_line() {
        let mut sink = Vec::new();
        let mut journal = Journal::new(&mut sink, false);
        journal.error("vda: a\nfake line\u{1b}[2J \u{202e}");
        journal.detail("not shown");
        journal.info("plain");
        assert_eq!(
            String::from_utf8(sink).unwrap(),
            "initdata-processor: error: vda: a?fake line?[2J ?\ninitdata-processor: plain\n"
        );
    }
}
