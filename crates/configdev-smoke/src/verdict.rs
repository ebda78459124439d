//! The verdict on an image: findings, the exit code that they mean, and how both are told.

use std::fmt::Write as _;

use foreign_text::one_line;
use problem::{Finding, Severity};

/// The longest line of a finding, in characters.
const MAX_LINE_CHARS: usize = 1024;

/// Everything is as expected.
pub const FINE: u8 = 0;
/// The image's files do not fit together.
pub const IMAGE: u8 = 7;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// A file that was named cannot be read.
pub const NO_INPUT: u8 = 66;
/// Something is missing here: QEMU, the wrapper, the stand-in.
pub const UNAVAILABLE: u8 = 69;
/// A result cannot be written.
pub const CANNOT_CREATE: u8 = 73;
/// Time, or the console's length, ran out before the agent was done.
pub const LIMIT: u8 = 124;

/// For `--help`.
pub const EXIT_CODES: &str = "\
Exit codes, where several apply the first of 1 to 7:
    0  the image does what was expected
    1  boot: the kernel or a first program ended before there was an agent
    2  drivers: disks or the network are missing
    3  processor: verdict, policy or files are not as expected
    4  sockets: the agent has nobody to ask, or asks somebody else
    5  surroundings: /run is not in memory, or the clock is wrong
    6  pull: no image, or one where none was to be
    7  without a boot: an error in the image's files
   64  wrong command line
   66  a file that was named cannot be read
   69  QEMU, the wrapper or the stand-in is missing here, or does not start
   73  a result cannot be written
  124  --timeout passed, or the console said too much, before the agent was done
  130, 143  interrupted; processes and temporary files are gone";

/// Everything that is told: findings, each with the exit code that it means as an error. A
/// finding's id is its name for programs.
#[derive(Debug)]
pub struct Verdict {
    /// What was tried, for a report.
    pub suite: String,
    /// At least one, so that a report is never empty.
    pub rows: Vec<(u8, Finding)>,
}

impl Verdict {
    /// The exit code: the first that failed.
    #[must_use]
    pub fn code(&self) -> u8 {
        let failed = self.rows.iter().filter(|(_, finding)| finding.severity == Severity::Error);
        failed.map(|(code, _)| *code).min().unwrap_or(FINE)
    }

    /// A line for each finding.
    #[must_use]
    pub fn text(&self) -> String {
        self.rows.iter().map(|(_, finding)| line(finding) + "\n").collect()
    }

    /// A JSON object for each finding, on a line of its own.
    #[must_use]
    pub fn json(&self) -> String {
        self.rows.iter().map(|(_, finding)| finding.json() + "\n").collect()
    }

    /// A test suite of JUnit's, with a case for each finding.
    #[must_use]
    pub fn junit(&self) -> String {
        let (suite, all) = (&self.suite, self.rows.len());
        let failures = self.rows.iter().filter(|(_, finding)| finding.severity == Severity::Error);
        let failures = failures.count();
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite \
             name=\"{suite}\" tests=\"{all}\" failures=\"{failures}\">\n"
        );
        for (at, (_, finding)) in self.rows.iter().enumerate() {
            // A name may come several times, and readers take the last of them.
            let earlier = self.rows[..at].iter().filter(|(_, other)| other.place == finding.place);
            let number = match earlier.count() {
                0 => String::new(),
                count => format!(" {}", count + 1),
            };
            let (name, line) = (escaped(&finding.place), escaped(&line(finding)));
            let content = match finding.severity {
                Severity::Error => format!("<failure message=\"{line}\"/>"),
                _ => format!("<system-out>{line}</system-out>"),
            };
            let _ = writeln!(
                text,
                "<testcase classname=\"{suite}\" name=\"{name}{number}\">{content}</testcase>"
            );
        }
        text.push_str("</testsuite>\n</testsuites>\n");
        text
    }
}

fn line(finding: &Finding) -> String {
    one_line(&finding.to_string()).up_to(MAX_LINE_CHARS).to_string()
}

/// Text for XML, where controls are already shown in another way.
fn escaped(text: &str) -> String {
    let mut safe = text.replace('&', "&amp;");
    for (char, name) in [('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&apos;")] {
        safe = safe.replace(char, name);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(severity: Severity, text: &str, code: u8) -> (u8, Finding) {
        let remedy = if severity == Severity::Error { "see \"clock\"" } else { "" };
        let (place, remedy) = ("pull".to_owned(), remedy.to_owned());
        (code, Finding { severity, id: "pull", place, text: text.to_owned(), remedy })
    }

    #[test]
    fn foreign_words_stay_words() {
        let rows =
            vec![row(Severity::Ok, "a", 6), row(Severity::Error, "<b> & \"c\"\n\u{1b}[1m\u{0}", 6)];
        let verdict = Verdict { suite: "s".to_owned(), rows };
        let expected = "ok: pull: a\nerror: pull: <b> & \"c\" \\u{1b}[1m\\u{0}; see \"clock\"\n";
        assert_eq!(verdict.text(), expected);
        let junit = verdict.junit();
        assert!(junit.contains("name=\"s\" tests=\"2\" failures=\"1\""), "{junit}");
        assert!(junit.contains("name=\"pull 2\""), "{junit}");
        assert!(junit.contains("message=\"error: pull: &lt;b&gt; &amp; &quot;c&quot; "), "{junit}");
        assert!(!junit.contains(['\u{1b}', '\u{0}']));
    }

    #[test]
    fn the_first_that_failed_is_the_code() {
        let code = |rows| Verdict { suite: String::new(), rows }.code();
        let warning = row(Severity::Warning, "b", 1);
        assert_eq!(code(vec![warning.clone()]), 0);
        let failed = |code| row(Severity::Error, "a", code);
        assert_eq!(code(vec![failed(6), failed(2), warning]), 2);
    }
}
