//! What a run took.

use std::time::{Duration, Instant};

use linux_sys::peak_memory;

use crate::journal::Journal;

/// The phases so far.
#[derive(Debug)]
pub struct Report {
    start: Instant,
    last: Instant,
    phases: Vec<(&'static str, Duration)>,
}

impl Report {
    /// Starts the clock.
    pub fn start() -> Self {
        let now = Instant::now();
        Self { start: now, last: now, phases: Vec::new() }
    }

    /// Ends a phase.
    pub fn phase(&mut self, name: &'static str) {
        let now = Instant::now();
        self.phases.push((name, now - self.last));
        self.last = now;
    }

    /// Tells it.
    pub fn finish(&self, journal: &mut Journal<'_>) {
        let ms = |duration: &Duration| duration.as_secs_f64() * 1000.0;
        let phases = self
            .phases
            .iter()
            .map(|(name, duration)| format!("{name} {:.2}", ms(duration)))
            .collect::<Vec<_>>()
            .join(", ");
        let memory = match peak_memory::kib() {
            Ok(kib) => format!("; peak memory {kib} KiB"),
            Err(_) => String::new(),
        };
        let total = ms(&self.start.elapsed());
        journal.info(format_args!("finished after {total:.2} ms: {phases}{memory}"));
    }
}
