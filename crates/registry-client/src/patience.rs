//! How long, how often and how slowly: everything about waiting for a registry, in one place.

use std::time::Duration;

/// What is waited for, and what is not.
///
/// A registry can only be late by these; no answer of it changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often the same is asked for in a row without a byte of progress, the first time
    /// included; nothing means as often as the time allows.
    pub attempts: Option<u32>,
    /// How often a blob's transfer may be taken up again in total, whatever progress it makes in
    /// between.
    pub resumptions: u32,
    /// The longest wait before the second attempt. It doubles with each further one, and the wait
    /// is a random part of it.
    pub first_delay: Duration,
    /// What the doubling ends at.
    pub largest_delay: Duration,
    /// How long name resolution, connecting and the TLS handshake may take together.
    pub connect: Duration,
    /// How long an answer may take to begin once there is a connection.
    pub silence: Duration,
    /// How long an answer that has begun may stand still.
    pub stall: Duration,
    /// The slowest transfer of a blob in bytes per second; standing still is noticed sooner, this
    /// ends a drip.
    pub slowest_rate: u64,
    /// How long a blob may be waited for at any rate; where another source is left to ask, at most
    /// `budget_before_fallback`. Time in which a source is not there counts only in that case.
    pub slow_start: Duration,
    /// How long one source may go without progress, all attempts and waits included.
    pub budget: Duration,
    /// The same where another source is left to ask, so that a mirror that hangs does not eat the
    /// time of the registry. Also how long one place of signatures may bring nothing once another
    /// one has.
    pub budget_before_fallback: Duration,
    /// Whether the sources are asked in turns until `budget` is over. Then the last one gives way
    /// as soon as the others do, until a blob of it has begun.
    pub in_turns: bool,
}

/// How long a pull goes on whose caller says nothing about it: what Kata's agent gives one by
/// default.
pub const DEFAULT_TIME: Duration = Duration::from_secs(1200);

impl Default for Patience {
    /// For a caller that waits as long as Kata's agent does: a registry that restarts, or a network
    /// that comes late, is waited for.
    fn default() -> Self {
        Self {
            attempts: None,
            resumptions: 50,
            first_delay: Duration::from_millis(500),
            largest_delay: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            slowest_rate: 16 << 10,
            slow_start: Duration::from_secs(120),
            budget: DEFAULT_TIME,
            budget_before_fallback: Duration::from_secs(20),
            in_turns: false,
        }
    }
}

impl Patience {
    /// The longest wait before an attempt after `failed` ones.
    pub(crate) fn delay_limit(&self, failed: u32) -> Duration {
        let doubled = 1_u32.checked_shl(failed.saturating_sub(1));
        self.first_delay.saturating_mul(doubled.unwrap_or(u32::MAX)).min(self.largest_delay)
    }

    /// How long a blob may be waited for in total of which so many bytes have come. What its size
    /// would allow does not count: a drip is noticed at its beginning, however large the blob.
    pub(crate) fn for_blob(&self, received: u64, has_fallback: bool) -> Duration {
        let start = if has_fallback {
            self.slow_start.min(self.budget_before_fallback)
        } else {
            self.slow_start
        };
        start + Duration::from_secs(received / self.slowest_rate.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit() {
        let patience = Patience {
            first_delay: Duration::from_secs(1),
            largest_delay: Duration::from_secs(10),
            ..Patience::default()
        };
        for (failed, seconds) in
            [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (33, 10), (u32::MAX, 10)]
        {
            assert_eq!(patience.delay_limit(failed).as_secs(), seconds, "{failed}");
        }
    }

    #[test]
    fn a_large_blob_may_take_its_time() {
        let patience = Patience {
            slow_start: Duration::from_secs(5),
            slowest_rate: 100,
            ..Patience::default()
        };
        assert_eq!(patience.for_blob(0, false).as_secs(), 5);
        assert_eq!(patience.for_blob(1000, false).as_secs(), 15);
        let mirror = Patience { budget_before_fallback: Duration::from_secs(2), ..patience };
        assert_eq!(mirror.for_blob(0, true).as_secs(), 2);
        assert_eq!(mirror.for_blob(1000, true).as_secs(), 12);
        assert_eq!(mirror.for_blob(1000, false).as_secs(), 15);
        let nothing = Patience { slowest_rate: 0, ..patience };
        assert!(nothing.for_blob(u64::from(u32::MAX), false) > Duration::from_secs(1 << 31));
    }
}
