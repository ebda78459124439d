//! The verdict on an image: what was found, the exit code that it means, and how both are told.

use std::fmt::Write as _;

use foreign_text::one_line;
use problem::{Finding, Severity};

/// The longest line of a finding without a boot, in characters.
const MAX_LINE_CHARS: usize = 1024;

/// What a part of the image is for; the order is that of a boot, and the first that fails is the
/// exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Kernel and first programs, up to the agent.
    Boot = 1,
    /// Drivers of disks and network.
    Drivers = 2,
    /// What the processor said, and the files that it left.
    Processor = 3,
    /// Guest components, sockets, and the agent's connection.
    Sockets = 4,
    /// What the puller needs of the guest: memory file systems, the clock.
    Surroundings = 5,
    /// The pull.
    Pull = 6,
    /// What was found without a boot.
    Image = 7,
}

/// Everything is as expected.
pub const FINE: u8 = 0;
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
    7  the image's parts do not fit together: an error that needs no boot to be found
   64  wrong command line
   66  a file that was named cannot be read
   69  QEMU, the wrapper or the stand-in is missing here, or does not start
   73  a result cannot be written
  124  --timeout passed, or the console said too much, before the agent was done
  130, 143  interrupted; processes and temporary files are gone";

/// One finding, with what the verdict needs of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its id is the row's name, which programs may rely on.
    pub finding: Finding,
    /// What it belongs to.
    pub kind: Kind,
    /// Seconds that it took, where that is known.
    pub secs: f64,
}

/// Everything that is told.
#[derive(Debug)]
pub struct Verdict {
    /// The runtime and the state that was expected; `None` without a boot.
    pub boot: Option<(String, String)>,
    /// One for each part.
    pub rows: Vec<Row>,
    /// Whether time or console ran out before the agent was done.
    pub is_cut: bool,
    /// From the beginning to the end, in seconds.
    pub secs: f64,
}

/// The rows of what was found without a boot; one that says so where that is nothing.
pub fn rows(findings: Vec<Finding>) -> impl Iterator<Item = Row> {
    let none = findings.is_empty().then(|| about_image(Severity::Ok, "no finding".to_owned()));
    let findings = none.into_iter().chain(findings);
    findings.map(|finding| Row { finding, kind: Kind::Image, secs: 0.0 })
}

/// A finding about the image as a whole.
#[must_use]
pub fn about_image(severity: Severity, text: String) -> Finding {
    Finding { severity, id: "image", place: String::new(), text, remedy: String::new() }
}

impl Verdict {
    /// The exit code: the first kind that failed.
    #[must_use]
    pub fn code(&self) -> u8 {
        let failed = self.rows.iter().filter(|row| row.finding.severity == Severity::Error);
        match failed.map(|row| row.kind).min() {
            None => FINE,
            Some(first) if self.is_cut && first != Kind::Image => LIMIT,
            Some(first) => first as u8,
        }
    }

    /// With a boot a line for each row, with what to do below it, and one for all. Without one a
    /// line for each thing that is worth a word.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let Some((runtime, expect)) = &self.boot else {
            let findings = self.rows.iter().map(|row| &row.finding);
            for finding in findings.filter(|finding| finding.severity > Severity::Skipped) {
                let line = finding.to_string();
                let _ = writeln!(text, "{}", one_line(&line).up_to(MAX_LINE_CHARS));
            }
            return text;
        };
        for Row { finding, .. } in &self.rows {
            let state = match finding.severity {
                Severity::Ok => "ok",
                Severity::Warning => "warning",
                Severity::Skipped => "skipped",
                Severity::Error => "FAILED",
            };
            let _ = writeln!(text, "{state:<8} {:<13} {}", finding.id, said(finding));
            if !finding.remedy.is_empty() {
                let _ = writeln!(text, "{:22} -> {}", "", finding.remedy);
            }
        }
        let (code, secs) = (self.code(), self.secs);
        let not = if code == FINE { "" } else { "not " };
        let _ =
            writeln!(text, "{expect}, {runtime}: {not}as expected, {secs:.1} s, exit code {code}");
        text
    }

    /// A test suite of JUnit's, with a case for each row.
    #[must_use]
    pub fn junit(&self) -> String {
        let count = |severity| {
            let rows = self.rows.iter().filter(|row| row.finding.severity == severity);
            rows.count()
        };
        let suite = match &self.boot {
            Some((runtime, expect)) => format!("configdev-smoke.{runtime}.{expect}"),
            None => "configdev-smoke.no-boot".to_owned(),
        };
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite \
             name=\"{suite}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3}\">\n",
            self.rows.len(),
            count(Severity::Error),
            count(Severity::Skipped),
            self.secs
        );
        for (number, Row { finding, secs, .. }) in self.rows.iter().enumerate() {
            // A name may come several times, and readers take the last of them.
            let earlier = self.rows[..number].iter().filter(|row| row.finding.id == finding.id);
            let place = match earlier.count() {
                0 => String::new(),
                count => format!(" {}", count + 1),
            };
            let name = format!("{}{place}", finding.id);
            let (said, remedy) = (escaped(&said(finding)), escaped(&finding.remedy));
            let content = match finding.severity {
                Severity::Ok => format!("<system-out>{said}</system-out>"),
                Severity::Warning => {
                    let line = escaped(&one_line(&finding.to_string()).to_string());
                    format!("<system-out>{line}</system-out>")
                }
                Severity::Skipped => format!("<skipped message=\"{said}\"/>"),
                Severity::Error => format!("<failure message=\"{said}\">{remedy}</failure>"),
            };
            let _ = writeln!(
                text,
                "<testcase classname=\"{suite}\" name=\"{name}\" time=\"{secs:.3}\">{content}\
                 </testcase>"
            );
        }
        text.push_str("</testsuite>\n</testsuites>\n");
        text
    }
}

/// The place and the text, on one line.
fn said(finding: &Finding) -> String {
    let colon = if finding.place.is_empty() { "" } else { ": " };
    one_line(&format!("{}{colon}{}", finding.place, finding.text)).to_string()
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

    fn row(severity: Severity, text: &str, kind: Kind) -> Row {
        let remedy = if severity == Severity::Error { "see \"clock\"" } else { "" };
        let (place, remedy) = (String::new(), remedy.to_owned());
        let finding = Finding { severity, id: "pull", place, text: text.to_owned(), remedy };
        Row { finding, kind, secs: 1.5 }
    }

    #[test]
    fn foreign_words_stay_words() {
        let rows = vec![
            row(Severity::Ok, "a", Kind::Pull),
            row(Severity::Error, "<b> & \"c\"\n\u{1b}[1m\u{0}", Kind::Pull),
            row(Severity::Skipped, "d", Kind::Pull),
        ];
        let boot = Some(("go".to_owned(), "ready".to_owned()));
        let mut verdict = Verdict { boot, rows, is_cut: false, secs: 2.0 };
        let text = verdict.text();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains("FAILED   pull") && text.contains("exit code 6"), "{text}");
        assert!(!text.contains('\u{1b}'));
        let junit = verdict.junit();
        assert!(junit.contains("tests=\"3\" failures=\"1\" skipped=\"1\""), "{junit}");
        assert!(junit.contains("name=\"pull 2\""), "{junit}");
        assert!(junit.contains("message=\"&lt;b&gt; &amp; &quot;c&quot; "), "{junit}");
        assert!(!junit.contains(['\u{1b}', '\u{0}']));
        verdict.boot = None;
        let text = verdict.text();
        let expected = "error: <b> & \"c\" \\u{1b}[1m\\u{0}; see \"clock\"\n";
        assert_eq!(text, expected);
        assert!(verdict.junit().contains("name=\"configdev-smoke.no-boot\""));
    }

    #[test]
    fn the_first_kind_that_failed_is_the_code() {
        let code = |rows, is_cut| Verdict { boot: None, rows, is_cut, secs: 0.0 }.code();
        let pull = row(Severity::Error, "a", Kind::Pull);
        let mut image = pull.clone();
        image.kind = Kind::Image;
        let warning = row(Severity::Warning, "b", Kind::Boot);
        assert_eq!(code(vec![warning.clone()], true), 0);
        assert_eq!(code(vec![image.clone(), pull.clone(), warning.clone()], false), 6);
        assert_eq!(code(vec![image.clone(), warning], true), 7);
        assert_eq!(code(vec![image, pull], true), 124);
    }
}
