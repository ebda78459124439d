//! How patient a pull is, as options.

use std::time::Duration;

use clap::Args;
use puller_config::{MAX_ATTEMPTS, MAX_STALL_SECS};
use registry_client::Patience;

/// The limits of each request to a registry.
#[derive(Clone, Copy, Debug, Args)]
pub struct Limits {
    /// How often the same request is made without a byte of progress; 0: as often as the caller's
    /// time allows
    #[arg(long, value_name = "NUMBER", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_ATTEMPTS)))]
    attempts: u32,
    /// How long a registry may be silent, or a transfer stand still [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=u64::from(MAX_STALL_SECS)))]
    stall_timeout: Option<u64>,
}

impl Limits {
    /// The default with what was said.
    pub fn patience(self) -> Patience {
        let mut patience = Patience {
            attempts: Some(self.attempts).filter(|attempts| *attempts > 0),
            ..Patience::default()
        };
        if let Some(seconds) = self.stall_timeout {
            patience.stall = Duration::from_secs(seconds);
            patience.silence = patience.stall;
        }
        patience
    }
}
