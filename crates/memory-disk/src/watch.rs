//! When to log an event and when to go dark, computed from counters, without threads and clocks.

use std::time::{Duration, Instant};

use crate::Options;
use crate::event::Event;

/// How many drivers are logged: a few, for firmware and reboots. A guest can take the device as
/// often as it likes, and must not fill the host's log that way.
const MAX_DRIVERS_TOLD: u32 = 8;

/// What the device has counted and seen. Written by the serving threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// When a driver last took the device.
    pub(crate) negotiated: Option<Instant>,
    /// Requests for content that were answered with content.
    pub(crate) reads: u64,
    /// When the last of the reads was.
    pub(crate) last_read: Option<Instant>,
    /// Whether all of the content was read.
    pub(crate) is_complete: bool,
    /// Whether the content is gone.
    pub(crate) is_dark: bool,
}

/// What was logged already.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    negotiated: Option<Instant>,
    drivers: u32,
    first_read: bool,
    complete: bool,
    dark: bool,
}

/// What is to be done now, and when to look again at the latest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) events: Vec<Event>,
    pub(crate) darken: bool,
    pub(crate) again_in: Option<Duration>,
}

impl Watch {
    /// Compares `progress` with what was logged before.
    pub(crate) fn step(&mut self, now: Instant, progress: &Progress, options: &Options) -> Step {
        let mut step = Step::default();
        if progress.negotiated.is_some() && self.negotiated != progress.negotiated {
            self.negotiated = progress.negotiated;
            self.drivers = self.drivers.saturating_add(1);
            if self.drivers <= MAX_DRIVERS_TOLD {
                step.events.push(Event::Negotiated);
            }
        }
        if progress.reads > 0 && !self.first_read {
            self.first_read = true;
            step.events.push(Event::FirstRead);
        }
        if progress.is_complete && !self.complete {
            self.complete = true;
            step.events.push(Event::Complete);
        }
        if let (Some(settle), true, false, Some(last_read)) =
            (options.once, progress.is_complete, progress.is_dark, progress.last_read)
        {
            let quiet = now.saturating_duration_since(last_read);
            if quiet >= settle {
                step.darken = true;
            } else {
                step.again_in = Some(settle - quiet);
            }
        }
        if (progress.is_dark || step.darken) && !self.dark {
            self.dark = true;
            step.events.push(Event::Dark);
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn options(once: Option<Duration>) -> Options {
        Options { once, ..Options::default() }
    }

    #[test]
    fn a_guest_cannot_fill_the_log() {
        let start = Instant::now();
        let mut watch = Watch::default();
        let mut progress = Progress::default();
        let mut events = 0;
        for n in 0..1000 {
            progress.negotiated = Some(start + 20 * n * SECOND);
            let step = watch.step(start + (20 * n + 10) * SECOND, &progress, &options(None));
            events += step.events.len();
        }
        assert_eq!(events, MAX_DRIVERS_TOLD as usize);
    }

    #[test]
    fn what_a_driver_does_is_told_once() {
        let start = Instant::now();
        let mut watch = Watch::default();
        let progress = Progress { negotiated: Some(start), reads: 1, ..Progress::default() };
        let step = watch.step(start + 60 * SECOND, &progress, &options(None));
        assert_eq!(step.events, [Event::Negotiated, Event::FirstRead]);
        assert_eq!(step.again_in, None);
        assert_eq!(watch.step(start + 61 * SECOND, &progress, &options(None)), Step::default());
    }

    #[test]
    fn once_waits_until_reading_has_settled() {
        let start = Instant::now();
        let mut watch = Watch::default();
        let mut progress = Progress { reads: 1, last_read: Some(start), ..Progress::default() };
        let once = options(Some(3 * SECOND));
        let step = watch.step(start + 60 * SECOND, &progress, &once);
        assert!(!step.darken, "not everything was read");

        progress.is_complete = true;
        progress.last_read = Some(start + 60 * SECOND);
        let step = watch.step(start + 62 * SECOND, &progress, &once);
        assert_eq!((step.darken, step.again_in), (false, Some(SECOND)));
        // Another read starts the time anew.
        progress.last_read = Some(start + 62 * SECOND);
        assert!(!watch.step(start + 64 * SECOND, &progress, &once).darken);
        let step = watch.step(start + 65 * SECOND, &progress, &once);
        assert!(step.darken);
        assert_eq!(step.events, [Event::Dark]);
        progress.is_dark = true;
        let step = watch.step(start + 66 * SECOND, &progress, &once);
        assert_eq!(step, Step::default());
    }

    #[test]
    fn without_once_the_disk_stays() {
        let start = Instant::now();
        let progress =
            Progress { reads: 1, last_read: Some(start), is_complete: true, ..Progress::default() };
        let step = Watch::default().step(start + 3600 * SECOND, &progress, &options(None));
        assert!(!step.darken);
        assert_eq!(step.events, [Event::FirstRead, Event::Complete]);
    }
}
