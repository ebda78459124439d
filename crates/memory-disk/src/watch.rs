//! When to log an event and when to go dark, computed from counters, without threads and clocks.

use std::time::{Duration, Instant};

use crate::Options;
use crate::event::{Event, Silence};

/// How many drivers are logged: a few, for firmware and reboots. A guest can take the device as
/// often as it likes, and must not fill the host's log that way.
const MAX_DRIVERS_TOLD: u32 = 8;

/// What the device has counted and seen. Written by the serving threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// When a driver last took the device.
    pub(crate) negotiated: Option<Instant>,
    /// Whether guest memory was handed over since.
    pub(crate) has_memory: bool,
    /// Since the driver took the device: whether a queue was looked at, and whether its memory is
    /// all zero.
    pub(crate) queue_is_blank: Option<bool>,
    /// Requests for content that were answered with content.
    pub(crate) reads: u64,
    /// Since the driver took the device: whether it made any request.
    pub(crate) has_request: bool,
    /// When the last of the reads was.
    pub(crate) last_read: Option<Instant>,
    /// Whether all of the content was read.
    pub(crate) is_complete: bool,
    /// How often the content was replaced.
    pub(crate) updates: u64,
    /// Whether the content is gone.
    pub(crate) is_dark: bool,
}

/// What was logged already.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    negotiated: Option<Instant>,
    drivers: u32,
    silent: Option<Instant>,
    first_read: bool,
    complete: bool,
    updates: u64,
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
        if let Some(since) = progress.negotiated {
            if self.negotiated != Some(since) {
                self.negotiated = Some(since);
                self.drivers = self.drivers.saturating_add(1);
                if self.drivers <= MAX_DRIVERS_TOLD {
                    step.events.push(Event::Negotiated);
                }
            }
            if !progress.has_request
                && self.silent != Some(since)
                && self.drivers <= MAX_DRIVERS_TOLD
            {
                let waited = now.saturating_duration_since(since);
                if waited >= options.first_request_within {
                    self.silent = Some(since);
                    step.events.push(Event::Silent { waited, silence: progress.silence() });
                } else {
                    step.wake(options.first_request_within - waited);
                }
            }
        }
        if progress.reads > 0 && !self.first_read {
            self.first_read = true;
            step.events.push(Event::FirstRead);
        }
        if progress.updates != self.updates {
            self.updates = progress.updates;
            // What was read before says nothing about it.
            self.complete = false;
            step.events.push(Event::Updated);
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
                step.wake(settle - quiet);
            }
        }
        if (progress.is_dark || step.darken) && !self.dark {
            self.dark = true;
            step.events.push(Event::Dark);
        }
        step
    }

    /// The last event when the VMM has gone: QEMU hangs up where it finds that memory
    /// cannot be shared.
    pub(crate) fn last_words(&self, now: Instant, progress: &Progress) -> Option<Event> {
        let since = progress.negotiated?;
        let event = Event::Silent {
            waited: now.saturating_duration_since(since),
            silence: progress.silence(),
        };
        (!progress.has_request && self.silent != Some(since) && event.is_error()).then_some(event)
    }
}

impl Step {
    fn wake(&mut self, delay: Duration) {
        self.again_in = Some(self.again_in.map_or(delay, |before| before.min(delay)));
    }
}

impl Progress {
    /// A driver takes the device, perhaps not the first one: what was seen before says nothing
    /// about it.
    pub(crate) fn negotiate(&mut self, now: Instant) {
        self.negotiated = Some(now);
        self.queue_is_blank = None;
        self.has_request = false;
    }

    fn silence(&self) -> Silence {
        match (self.has_memory, self.queue_is_blank) {
            (false, _) => Silence::NoMemory,
            (true, None) => Silence::NoQueue,
            (true, Some(true)) => Silence::MemoryNotShared,
            (true, Some(false)) => Silence::NoRequest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn options(once: Option<Duration>) -> Options {
        Options { once, first_request_within: 5 * SECOND, ..Options::default() }
    }

    #[test]
    fn silence_is_told_once_per_driver_and_with_its_reason() {
        for (has_memory, queue_is_blank, silence) in [
            (false, None, Silence::NoMemory),
            (true, None, Silence::NoQueue),
            (true, Some(true), Silence::MemoryNotShared),
            (true, Some(false), Silence::NoRequest),
        ] {
            let start = Instant::now();
            let mut watch = Watch::default();
            let mut progress = Progress { has_memory, ..Progress::default() };
            let nothing = watch.step(start, &progress, &options(None));
            assert_eq!(nothing, Step::default(), "nobody came yet");

            progress.negotiate(start);
            progress.queue_is_blank = queue_is_blank;
            let step = watch.step(start + 2 * SECOND, &progress, &options(None));
            assert_eq!(step.events, [Event::Negotiated]);
            assert_eq!(step.again_in, Some(3 * SECOND));

            let step = watch.step(start + 5 * SECOND, &progress, &options(None));
            let waited = 5 * SECOND;
            assert_eq!(step.events, [Event::Silent { waited, silence }]);
            let step = watch.step(start + 9 * SECOND, &progress, &options(None));
            assert_eq!(step, Step::default());

            progress.negotiate(start + 10 * SECOND);
            let step = watch.step(start + 15 * SECOND, &progress, &options(None));
            assert_eq!(step.events.len(), 2, "the next driver is looked at anew");
        }
    }

    #[test]
    fn a_guest_cannot_fill_the_log() {
        let start = Instant::now();
        let mut watch = Watch::default();
        let mut progress = Progress::default();
        let mut events = 0;
        for n in 0..1000 {
            progress.negotiate(start + 20 * n * SECOND);
            let step = watch.step(start + (20 * n + 10) * SECOND, &progress, &options(None));
            events += step.events.len();
        }
        assert_eq!(events, 2 * MAX_DRIVERS_TOLD as usize);
    }

    #[test]
    fn a_vmm_that_goes_away_without_sharing_memory_is_told() {
        let start = Instant::now();
        let mut watch = Watch::default();
        let mut progress = Progress::default();
        assert_eq!(watch.last_words(start, &progress), None);
        progress.negotiate(start);
        let waited = SECOND;
        let silence = Silence::NoMemory;
        let words = Event::Silent { waited, silence };
        assert_eq!(watch.last_words(start + SECOND, &progress), Some(words));
        watch.step(start + 5 * SECOND, &progress, &options(None));
        assert_eq!(watch.last_words(start + 6 * SECOND, &progress), None, "said before");
        // A VM that ends while its guest starts.
        progress.negotiate(start + 7 * SECOND);
        progress.has_memory = true;
        progress.queue_is_blank = Some(false);
        assert_eq!(watch.last_words(start + 8 * SECOND, &progress), None);
    }

    #[test]
    fn a_request_ends_the_waiting() {
        let start = Instant::now();
        let mut watch = Watch::default();
        let mut progress = Progress::default();
        progress.negotiate(start);
        progress.has_request = true;
        progress.reads = 1;
        let step = watch.step(start + 60 * SECOND, &progress, &options(None));
        assert_eq!(step.events, [Event::Negotiated, Event::FirstRead]);
        assert_eq!(step.again_in, None);
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

    /// A disk that goes dark by itself must not do so between an update and the guest's reading of
    /// it.
    #[test]
    fn new_content_is_waited_for_as_the_first_was() {
        let start = Instant::now();
        let mut watch = Watch::default();
        let mut progress =
            Progress { reads: 1, last_read: Some(start), is_complete: true, ..Progress::default() };
        let once = options(Some(3 * SECOND));
        watch.step(start + SECOND, &progress, &once);
        progress.updates = 1;
        progress.is_complete = false;
        let step = watch.step(start + 60 * SECOND, &progress, &once);
        assert_eq!((step.darken, step.events), (false, vec![Event::Updated]));
        progress.is_complete = true;
        progress.last_read = Some(start + 61 * SECOND);
        let step = watch.step(start + 62 * SECOND, &progress, &once);
        assert_eq!((step.darken, step.events), (false, vec![Event::Complete]));
        let step = watch.step(start + 64 * SECOND, &progress, &once);
        assert!(step.darken);
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
