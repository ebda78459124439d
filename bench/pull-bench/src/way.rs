//! What lies between a tool and the registry: loopback or a longer line, and what is spoken there.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use line_emulator::{Line, Quality};
use serde::Serialize;

/// What is spoken with the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// HTTP/1.1 without TLS
    Plain,
    /// HTTP/1.1 over TLS
    Tls,
    /// HTTP/2 over TLS, where the tool wants it; else HTTP/1.1
    Http2,
}

/// One way to the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// Milliseconds that a packet takes, each way.
    pub delay_ms: u64,
    /// Megabits a second, each way; 0 is no bound.
    pub mbit: u64,
    /// What is spoken there.
    pub transport: Transport,
}

impl Way {
    /// All combinations.
    pub fn all(delays: &[u64], bandwidths: &[u64], transports: &[Transport]) -> Vec<Self> {
        let mut ways = Vec::new();
        for transport in transports {
            for mbit in bandwidths {
                ways.extend(delays.iter().map(|delay_ms| Self {
                    delay_ms: *delay_ms,
                    mbit: *mbit,
                    transport: *transport,
                }));
            }
        }
        ways
    }

    /// Whether packets go over a line of ours.
    pub const fn is_line(&self) -> bool {
        self.delay_ms > 0 || self.mbit > 0
    }

    /// The same without any distance.
    pub const fn beside(&self) -> Self {
        Self { delay_ms: 0, mbit: 0, transport: self.transport }
    }

    /// Such as `50 ms each way, 100 Mbit/s, TLS`.
    pub fn title(&self) -> String {
        let mut parts = Vec::new();
        if self.delay_ms > 0 {
            parts.push(format!("{} ms each way", self.delay_ms));
        }
        if self.mbit > 0 {
            parts.push(format!("{} Mbit/s", self.mbit));
        }
        if parts.is_empty() {
            parts.push("loopback".to_owned());
        }
        match self.transport {
            Transport::Plain => {}
            Transport::Tls => parts.push("TLS".to_owned()),
            Transport::Http2 => parts.push("TLS with HTTP/2".to_owned()),
        }
        parts.join(", ")
    }

    /// A fresh line; nothing on loopback.
    pub fn line(&self) -> Result<Option<Line>> {
        if !self.is_line() {
            return Ok(None);
        }
        let quality = Quality {
            delay: Duration::from_millis(self.delay_ms),
            bytes_per_sec: (self.mbit > 0).then(|| self.mbit.saturating_mul(125_000)),
            queue_bytes: None,
        };
        Line::new(quality).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where no packet is delayed, and the registry is the next process.
    const LOOPBACK: Way = Way { delay_ms: 0, mbit: 0, transport: Transport::Plain };

    #[test]
    fn axes_are_combined_and_named() {
        let ways = Way::all(&[0, 50], &[0, 100], &[Transport::Plain, Transport::Http2]);
        let titles: Vec<String> = ways.iter().map(Way::title).collect();
        assert_eq!(
            titles,
            [
                "loopback",
                "50 ms each way",
                "100 Mbit/s",
                "50 ms each way, 100 Mbit/s",
                "loopback, TLS with HTTP/2",
                "50 ms each way, TLS with HTTP/2",
                "100 Mbit/s, TLS with HTTP/2",
                "50 ms each way, 100 Mbit/s, TLS with HTTP/2",
            ]
        );
        assert_eq!(ways[0], LOOPBACK);
        assert!(ways[1..4].iter().all(|way| way.beside() == LOOPBACK));
        assert!(ways[1].is_line() && ways[2].is_line() && !ways[4].is_line());
    }
}
