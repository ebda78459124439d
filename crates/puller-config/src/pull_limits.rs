//! `[limits]` of the measured document: how patient and how busy a pull is.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Serialize;

use crate::problem::Findings;
use crate::section::Section;
use crate::{MAX_ATTEMPTS, MAX_LAYERS_AT_ONCE, MAX_STALL_SECS, Rule};

/// The table.
pub(crate) const KEY: &str = "limits";

const ATTEMPTS: &str = "attempts";
const LAYERS_AT_ONCE: &str = "layers-at-once";
const STALL_TIMEOUT: &str = "stall-timeout";

/// The keys of the table, for suggestions.
const KEYS: [&str; 3] = [ATTEMPTS, LAYERS_AT_ONCE, STALL_TIMEOUT];

/// What the guest's owner says about each pull; what is left out is for the program's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PullLimits {
    /// How often the same request is made without a byte of progress; 0: as often as the caller's
    /// time allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// How many layers of one image are fetched and unpacked at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers_at_once: Option<u32>,
    /// How many seconds a registry may be silent, or a transfer stand still.
    #[serde(skip_serializing_if = "Option::is_none")]
    stall_timeout: Option<u32>,
}

impl PullLimits {
    /// How long a registry may be silent, or a transfer stand still.
    #[must_use]
    pub fn stall_timeout(&self) -> Option<Duration> {
        self.stall_timeout.map(|seconds| Duration::from_secs(seconds.into()))
    }

    pub(crate) fn read(mut section: Section<'_, '_>, findings: &mut Findings) -> Self {
        let mut number = |key, range| read_number(&mut section, key, range, findings);
        let limits = Self {
            attempts: number(ATTEMPTS, 0..=MAX_ATTEMPTS),
            layers_at_once: number(LAYERS_AT_ONCE, 1..=MAX_LAYERS_AT_ONCE),
            stall_timeout: number(STALL_TIMEOUT, 1..=MAX_STALL_SECS),
        };
        section.refuse_rest(&KEYS, &Rule::UnknownKey { suggestion: None }, findings);
        limits
    }

    /// Takes over what this leaves open; gives the keys that lost.
    pub(crate) fn complete(&mut self, below: Self) -> Vec<&'static str> {
        let keys = [
            (ATTEMPTS, &mut self.attempts, below.attempts),
            (LAYERS_AT_ONCE, &mut self.layers_at_once, below.layers_at_once),
            (STALL_TIMEOUT, &mut self.stall_timeout, below.stall_timeout),
        ];
        let lost = keys.into_iter().filter_map(|(key, own, below)| {
            let has_lost = own.is_some() && below.is_some();
            *own = own.or(below);
            has_lost.then_some(key)
        });
        lost.collect()
    }
}

fn read_number(
    section: &mut Section<'_, '_>,
    key: &'static str,
    range: RangeInclusive<u32>,
    findings: &mut Findings,
) -> Option<u32> {
    let field = section.take_integer(key, findings)?;
    let number = field.value.and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| range.contains(number));
    if number.is_none() {
        let (least, most) = range.into_inner();
        findings.problem(&field.place, Rule::NotBetween { least, most });
    }
    number
}
