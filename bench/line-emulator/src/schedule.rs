//! When a packet arrives: the serial sending of a line with a rate, a queue before it, and the way.

use std::time::{Duration, Instant};

/// What is on its way at most, one way, where no rate bounds it. More than a TCP connection's
/// largest window, so that a single one never loses anything here.
const MAX_ON_THE_WAY_BYTES: u64 = 64 << 20;

/// The smallest queue that is chosen by itself: a burst of TCP's first windows of a few
/// connections.
const MIN_QUEUE_BYTES: u64 = 64 << 10;

/// The round trip that a queue is sized for where the line's own is shorter.
const MIN_QUEUE_TIME: Duration = Duration::from_millis(20);

/// What a line is like, the same both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// How long a packet is under way from one end to the other, after it was sent.
    pub delay: Duration,
    /// Bytes a second, IP headers included; without it as fast as packets can be carried.
    pub bytes_per_sec: Option<u64>,
    /// How many bytes may wait to be sent; what comes then is lost. Without it what the line
    /// carries in a round trip, as routers are commonly set up. Needs a rate to have any effect.
    pub queue_bytes: Option<u64>,
}

impl Quality {
    /// The bytes that may be accepted and not yet have arrived.
    pub(crate) fn max_on_the_way(&self) -> u64 {
        let Some(rate) = self.bytes_per_sec else {
            return MAX_ON_THE_WAY_BYTES;
        };
        // What sleeps too long on a busy machine is late by less than a second.
        carried(rate, self.delay + Duration::from_secs(1)).saturating_add(self.queue(rate))
    }

    fn queue(&self, rate: u64) -> u64 {
        let trip = (self.delay * 2).max(MIN_QUEUE_TIME);
        self.queue_bytes.unwrap_or_else(|| carried(rate, trip).max(MIN_QUEUE_BYTES))
    }
}

/// One way of a line.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    quality: Quality,
    /// When all that was accepted is sent.
    free_at: Option<Instant>,
}

impl Schedule {
    pub(crate) const fn new(quality: Quality) -> Self {
        Self { quality, free_at: None }
    }

    /// When a packet of `bytes` that is handed over `now` arrives; nothing where it is lost, since
    /// the queue is full. Times never go backwards if those of the calls do not.
    pub(crate) fn accept(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        let Some(rate) = self.quality.bytes_per_sec else {
            return Some(now + self.quality.delay);
        };
        let start = self.free_at.map_or(now, |free| free.max(now));
        let waiting = carried(rate, start - now);
        // An idle line takes a packet that is larger than its queue.
        if waiting > 0 && waiting + bytes > self.quality.queue(rate) {
            return None;
        }
        let sent = start + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        self.free_at = Some(sent);
        Some(sent + self.quality.delay)
    }
}

/// The bytes that are sent in `time`.
fn carried(rate: u64, time: Duration) -> u64 {
    (rate as f64 * time.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(50);

    fn quality(bytes_per_sec: Option<u64>, queue_bytes: Option<u64>) -> Quality {
        Quality { delay: DELAY, bytes_per_sec, queue_bytes }
    }

    #[test]
    fn without_a_rate_all_arrive_after_the_delay() {
        let (mut schedule, now) = (Schedule::new(quality(None, Some(1))), Instant::now());
        for _ in 0..1000 {
            assert_eq!(schedule.accept(now, 1500), Some(now + DELAY));
        }
    }

    #[test]
    fn with_a_rate_they_arrive_one_after_the_other() {
        let mut schedule = Schedule::new(quality(Some(1_000_000), Some(10_000)));
        let now = Instant::now();
        let after = |micros| Some(now + DELAY + Duration::from_micros(micros));
        assert_eq!(schedule.accept(now, 1000), after(1000));
        assert_eq!(schedule.accept(now, 500), after(1500));
        // An idle line has no debt and no credit.
        let later = now + Duration::from_secs(1);
        assert_eq!(schedule.accept(later, 1000), Some(later + DELAY + Duration::from_micros(1000)));
    }

    #[test]
    fn a_full_queue_loses_what_comes_and_empties_with_time() {
        let mut schedule = Schedule::new(quality(Some(1_000_000), Some(10_000)));
        let now = Instant::now();
        let accepted = (0..100).filter(|_| schedule.accept(now, 1000).is_some()).count();
        assert_eq!(accepted, 10);
        let later = now + Duration::from_millis(3);
        let accepted = (0..100).filter(|_| schedule.accept(later, 1000).is_some()).count();
        assert_eq!(accepted, 3);
    }

    #[test]
    fn a_packet_larger_than_the_queue_passes_an_idle_line() {
        let mut schedule = Schedule::new(quality(Some(1_000_000), Some(10)));
        assert!(schedule.accept(Instant::now(), 1500).is_some());
    }

    #[test]
    fn queues_hold_a_round_trip_and_bounds_hold_the_queue() {
        for (rate, delay_ms, queue) in
            [(12_500_000, 50, 1_250_000), (12_500_000, 1, 250_000), (1000, 1, MIN_QUEUE_BYTES)]
        {
            let mut quality = quality(Some(rate), None);
            quality.delay = Duration::from_millis(delay_ms);
            assert_eq!(quality.queue(rate), queue);
            assert!(quality.max_on_the_way() > queue);
        }
    }
}
