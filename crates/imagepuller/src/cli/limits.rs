//! How patient a pull is, as options.

use std::time::Duration;

use clap::Args;
use puller_config::{MAX_ATTEMPTS, MAX_STALL_SECS};
use registry_client::Patience;

/// Somebody who looks on learns after seconds that a registry is not there.
const ATTEMPTS_OF_USER: u32 = 5;

/// The limits of each request to a registry.
#[derive(Clone, Copy, Debug, Args)]
pub struct Limits {
    /// How often the same request is made without a byte of progress; 0: as often as the caller's
    /// time allows [default: 0 for a service, else 5]
    #[arg(long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_ATTEMPTS)))]
    attempts: Option<u32>,
    /// How long a registry may be silent, or a transfer stand still [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=u64::from(MAX_STALL_SECS)))]
    stall_timeout: Option<u64>,
}

impl Limits {
    /// The default with what was said; of a service the caller says how long it waits.
    pub fn of_service(self, timing: Patience) -> Patience {
        self.patience(timing.attempts.unwrap_or(0), timing)
    }

    /// The default with what was said, for somebody who looks on.
    pub fn of_user(self) -> Patience {
        self.patience(ATTEMPTS_OF_USER, Patience::default())
    }

    fn patience(self, default: u32, timing: Patience) -> Patience {
        let mut patience = Patience {
            attempts: Some(self.attempts.unwrap_or(default)).filter(|attempts| *attempts > 0),
            ..timing
        };
        if let Some(seconds) = self.stall_timeout {
            patience.stall = Duration::from_secs(seconds);
            patience.silence = patience.stall;
        }
        patience
    }
}
