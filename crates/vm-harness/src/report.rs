//! What a guest said on its console.

use std::time::Duration;

/// The console's text and the marked lines in it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Everything the console showed.
    pub console: String,
    marks: Vec<Mark>,
    /// From the start of QEMU to its end.
    pub elapsed: Duration,
}

/// One line `@@ UPTIME NAME VALUE` of the guest's job.
#[derive(Clone, Debug)]
struct Mark {
    uptime_secs: f64,
    name: String,
    value: String,
}

impl Report {
    /// Reads a console's text; `elapsed` is from the start of QEMU to its end.
    #[must_use]
    pub fn parse(console: String, elapsed: Duration) -> Self {
        let marks = console.lines().filter_map(Mark::parse).collect();
        Self { console, marks, elapsed }
    }

    /// Uptime in seconds and value of each mark `name`, in order.
    pub fn marks(&self, name: &str) -> impl Iterator<Item = (f64, &str)> {
        let marks = self.marks.iter().filter(move |mark| mark.name == name);
        marks.map(|mark| (mark.uptime_secs, mark.value.as_str()))
    }

    /// All values marked `name`, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.marks.iter().filter(move |mark| mark.name == name).map(|mark| mark.value.as_str())
    }

    /// The first value marked `name`, or nothing.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// Seconds since the guest's kernel started, when `name` was first marked.
    #[must_use]
    pub fn uptime_secs(&self, name: &str) -> Option<f64> {
        self.marks.iter().find(|mark| mark.name == name).map(|mark| mark.uptime_secs)
    }

    /// Whether the job ran to its end. QEMU's exit code does not tell: it is 0 after a guest's
    /// panic as well.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.value("done").is_some()
    }
}

/// Whether a guest that still runs has made the mark `name`. Its log may have the same word.
#[must_use]
pub fn has_mark(console: &str, name: &str) -> bool {
    count_marks(console, name) > 0
}

/// How often a guest that still runs has made the mark `name`.
#[must_use]
pub fn count_marks(console: &str, name: &str) -> usize {
    let marks = console.lines().filter_map(Mark::parse);
    marks.filter(|mark| mark.name == name).count()
}

impl Mark {
    fn parse(line: &str) -> Option<Self> {
        // A kernel message may stand before the mark on the same line.
        let (_, line) = line.trim_end().split_once("@@ ")?;
        let (uptime, rest) = line.split_once(' ')?;
        let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self {
            uptime_secs: uptime.parse().ok()?,
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_among_other_lines() {
        let console = "[    0.1] kernel\r\n@@ 1.25 booted\r\nnoise\n[ 2] x @@ 2.50 error a b\r\n@@ \
        3 error c\n@@ no number\n";
        let report = Report::parse(console.to_owned(), Duration::ZERO);
        assert_eq!(report.value("booted"), Some(""));
        assert_eq!(report.values("error").collect::<Vec<_>>(), ["a b", "c"]);
        assert_eq!(report.uptime_secs("error"), Some(2.5));
        assert!(!report.is_complete());
        let console = &report.console;
        assert!(has_mark(console, "error") && !has_mark(console, "noise"));
        assert_eq!(count_marks(console, "error"), 2);
    }
}
