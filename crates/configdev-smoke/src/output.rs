//! Rows as text, JSON and JUnit.

use std::fmt::Write as _;

use foreign_text::one_line;
use serde_json::json;

use crate::judge::{Row, State};
use crate::options::{Options, word};

/// Everything that is told.
#[derive(Debug)]
pub struct Told<'a> {
    /// What was asked.
    pub options: &'a Options,
    /// One for each part.
    pub rows: &'a [Row],
    /// The exit code.
    pub code: u8,
    /// From the beginning to the end, in seconds.
    pub secs: f64,
}

fn name(state: State) -> &'static str {
    match state {
        State::Fine => "ok",
        State::Warning => "warning",
        State::Skipped => "skipped",
        State::Failed => "FAILED",
    }
}

impl Told<'_> {
    fn verdict(&self) -> &'static str {
        match self.code {
            0 => "as expected",
            _ => "not as expected",
        }
    }

    /// A line for each row, with what to do below it, and one for all.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for row in self.rows {
            let (state, said) = (name(row.state), one_line(&row.text));
            let _ = writeln!(text, "{state:<8} {:<13} {said}", row.name);
            if let Some(remedy) = row.remedy {
                let _ = writeln!(text, "{:22} -> {remedy}", "");
            }
        }
        let (expect, runtime) = (word(&self.options.expect), word(&self.options.runtime));
        let (verdict, secs) = (self.verdict(), self.secs);
        let _ =
            writeln!(text, "{expect}, {runtime}: {verdict}, {secs:.1} s, exit code {}", self.code);
        text
    }

    /// One object. Later versions may add keys, and rows.
    #[must_use]
    pub fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            json!({
                "name": row.name,
                "state": name(row.state).to_lowercase(),
                "text": one_line(&row.text).to_string(),
                "remedy": row.remedy,
                "seconds": row.secs,
            })
        });
        json!({
            "version": 1,
            "expect": word(&self.options.expect),
            "runtime": word(&self.options.runtime),
            "as-expected": self.code == 0,
            "exit-code": self.code,
            "seconds": self.secs,
            "rows": rows.collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// A test suite of JUnit's, with a case for each row.
    #[must_use]
    pub fn junit(&self) -> String {
        let count = |state| self.rows.iter().filter(|row| row.state == state).count();
        let (failed, skipped) = (count(State::Failed), count(State::Skipped));
        let (expect, runtime) = (word(&self.options.expect), word(&self.options.runtime));
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite \
             name=\"configdev-smoke.{runtime}.{expect}\" tests=\"{}\" failures=\"{failed}\" \
             skipped=\"{skipped}\" time=\"{:.3}\">\n",
            self.rows.len(),
            self.secs
        );
        for (number, row) in self.rows.iter().enumerate() {
            // A name may come several times, and readers take the last of them.
            let earlier = self.rows[..number].iter().filter(|other| other.name == row.name);
            let place = match earlier.count() {
                0 => String::new(),
                count => format!(" {}", count + 1),
            };
            let _ = write!(
                text,
                "<testcase classname=\"configdev-smoke.{runtime}.{expect}\" name=\"{}{place}\" \
                 time=\"{:.3}\">",
                row.name,
                row.secs.unwrap_or(0.0)
            );
            let said = escaped(&one_line(&row.text).to_string());
            let remedy = escaped(row.remedy.unwrap_or_default());
            let _ = match row.state {
                State::Fine => write!(text, "<system-out>{said}</system-out>"),
                State::Warning => {
                    write!(text, "<system-out>warning: {said}; {remedy}</system-out>")
                }
                State::Skipped => write!(text, "<skipped message=\"{said}\"/>"),
                State::Failed => write!(text, "<failure message=\"{said}\">{remedy}</failure>"),
            };
            text.push_str("</testcase>\n");
        }
        text.push_str("</testsuite>\n</testsuites>\n");
        text
    }
}

/// Text for XML, where controls are already shown in another way.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::exit::Kind;

    fn row(state: State, text: &str) -> Row {
        Row {
            name: "pull",
            kind: Kind::Pull,
            state,
            text: text.to_owned(),
            remedy: (state == State::Failed).then_some("see \"clock\""),
            secs: Some(1.5),
        }
    }

    #[test]
    fn foreign_words_stay_words() {
        let options = Options::parse_from(["x", "--kernel", "k", "--initrd", "i"]);
        let rows = [
            row(State::Fine, "a"),
            row(State::Failed, "<b> & \"c\"\n\u{1b}[1m\u{0}"),
            row(State::Skipped, "d"),
        ];
        let told = Told { options: &options, rows: &rows, code: 6, secs: 2.0 };
        let text = told.text();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains("FAILED   pull") && text.contains("exit code 6"), "{text}");
        assert!(!text.contains('\u{1b}'));
        let read: serde_json::Value = serde_json::from_str(&told.json()).unwrap();
        assert_eq!(read["rows"][1]["state"], "failed");
        assert_eq!(read["exit-code"], 6);
        let junit = told.junit();
        assert!(junit.contains("tests=\"3\" failures=\"1\" skipped=\"1\""), "{junit}");
        assert!(junit.contains("name=\"pull 2\""), "{junit}");
        assert!(junit.contains("message=\"&lt;b&gt; &amp; &quot;c&quot; "), "{junit}");
        assert!(!junit.contains(['\u{1b}', '\u{0}']));
    }
}
