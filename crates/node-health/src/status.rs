//! What is known of a node, shared between who looks after it and who asks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foreign_text::one_line;

use crate::metrics::Numbers;

/// The most lines of a reason, and the most bytes of each: what the kubelet shows of a probe ends
/// after about a kilobyte.
const MAX_LINES: usize = 8;
const MAX_LINE_BYTES: usize = 400;

/// How a node is.
#[derive(Clone, Debug)]
pub struct Status(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
    max_silence: Duration,
}

#[derive(Debug)]
struct Known {
    /// When the last pass ended; before the first one, when this was made.
    last_pass: Instant,
    /// What the last pass found wrong; `None` before the first one.
    problems: Option<Vec<String>>,
    numbers: Numbers,
}

/// The answer to whether a node is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is as it should be.
    Ready,
    /// Nobody has looked yet.
    Starting,
    /// It is not, for these reasons.
    NotReady(Vec<String>),
    /// Nobody has looked for too long.
    Stuck,
}

impl Readiness {
    /// The reason as text of one or a few lines.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Ready => "ok\n".into(),
            Self::Starting => "starting: nothing has been looked at yet\n".into(),
            Self::Stuck => "stuck: nothing has been looked at for too long\n".into(),
            Self::NotReady(problems) => {
                let line = |problem: &String| {
                    let line = one_line(problem).to_string();
                    let end = line.floor_char_boundary(MAX_LINE_BYTES);
                    format!("{}\n", &line[..end])
                };
                let mut text: String = problems.iter().take(MAX_LINES).map(line).collect();
                let more = problems.len().saturating_sub(MAX_LINES);
                if more > 0 {
                    text.push_str(&format!("and {more} more, see the log\n"));
                }
                text
            }
        }
    }
}

impl Status {
    /// Nothing known yet. Without a note for `max_silence`, whoever looks after the node is stuck.
    #[must_use]
    pub fn new(max_silence: Duration) -> Self {
        Self(Arc::new(Shared {
            known: Mutex::new(Known {
                last_pass: Instant::now(),
                problems: None,
                numbers: Numbers::default(),
            }),
            changed: Condvar::new(),
            max_silence,
        }))
    }

    /// Notes that a pass ended, what it found wrong, and what it counted.
    pub fn note(&self, problems: Vec<String>, numbers: Numbers) {
        *self.known() = Known { last_pass: Instant::now(), problems: Some(problems), numbers };
        self.0.changed.notify_all();
    }

    /// Whether the node is ready.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let known = self.known();
        if self.is_stuck(&known, Instant::now()) {
            return Readiness::Stuck;
        }
        match &known.problems {
            None => Readiness::Starting,
            Some(problems) if problems.is_empty() => Readiness::Ready,
            Some(problems) => Readiness::NotReady(problems.clone()),
        }
    }

    /// Whether whoever looks after the node is stuck.
    #[must_use]
    pub fn stuck(&self) -> bool {
        self.is_stuck(&self.known(), Instant::now())
    }

    /// Waits for the end of the first pass, but not for longer than `limit`; says whether it ended.
    #[must_use]
    pub fn started_within(&self, limit: Duration) -> bool {
        let waited = self
            .0
            .changed
            .wait_timeout_while(self.known(), limit, |known| known.problems.is_none());
        let (known, _) = waited.unwrap_or_else(PoisonError::into_inner);
        known.problems.is_some()
    }

    /// What the last pass counted.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.known().numbers.clone()
    }

    fn is_stuck(&self, known: &Known, now: Instant) -> bool {
        now.saturating_duration_since(known.last_pass) > self.0.max_silence
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Plain values: a panic elsewhere leaves them usable.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn without_a_first_pass_the_clock_runs_too() {
        let status = Status::new(Duration::from_secs(10));
        let known = status.known();
        assert!(!status.is_stuck(&known, known.last_pass + Duration::from_secs(10)));
        assert!(status.is_stuck(&known, known.last_pass + Duration::from_secs(11)));
    }

    #[test]
    fn a_reason_is_bounded_and_one_line_each() {
        let status = Status::new(Duration::from_secs(3600));
        assert_eq!(status.readiness(), Readiness::Starting);
        let problems = (0..20).map(|n| format!("{n}\n{}", "\u{e9}".repeat(1000)));
        status.note(problems.collect(), Numbers::default());
        let reason = status.readiness().reason();
        assert_eq!(reason.lines().count(), MAX_LINES + 1, "{reason}");
        assert!(reason.lines().all(|line| line.len() <= MAX_LINE_BYTES));
        assert!(reason.ends_with("and 12 more, see the log\n"), "{reason}");
        status.note(Vec::new(), Numbers::default());
        assert_eq!(status.readiness().reason(), "ok\n");
    }

    #[test]
    fn the_first_pass_is_waited_for() {
        let status = Status::new(Duration::from_secs(3600));
        assert!(!status.started_within(Duration::from_millis(1)));
        let other = status.clone();
        let waiting = thread::spawn(move || other.started_within(Duration::from_secs(600)));
        status.note(vec!["wrong".into()], Numbers::default());
        assert!(waiting.join().unwrap(), "a pass that finds problems is one");
    }
}
