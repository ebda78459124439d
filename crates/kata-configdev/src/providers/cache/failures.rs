//! Plugins that gave no answer a moment ago, remembered for all sandboxes of the node.
//!
//! A plugin that hangs, because its cloud's metadata service is down, costs the first sandbox the
//! whole deadline, and those that start soon after it nothing. Soon means: half a minute, and twice
//! as long each time that it hangs again. A plugin that fails at once costs little time, so it is
//! spared for a few seconds only: for a burst of pods that start together.
//!
//! The files hold no secret: the reason is one of our own, without a byte of the plugin's output.

use std::time::Duration;

use registry_config::RegistryHost;
use rustix::fs::{AtFlags, unlinkat};

use super::{Cache, HEADER_BYTES, times};
use crate::providers::fingerprint::Fingerprint;

/// The first bytes of a file; another layout has others.
const MAGIC: [u8; 8] = *b"kcdfail1";

/// How long a plugin is not asked again that hung for the first time.
const FIRST: Duration = Duration::from_secs(30);

/// How long at most: where its service is back, sandboxes have its passwords after this time.
const MOST: Duration = Duration::from_secs(4 * 60);

/// How long one is not asked again that failed by itself.
const BRIEF: Duration = Duration::from_secs(5);

/// The longest reason that is kept, in bytes.
const MAX_WHY_BYTES: usize = 512;

/// That a plugin gave no answer.
#[derive(Debug)]
pub struct KnownFailure {
    /// How long it is not asked again.
    pub left: Duration,
    /// Why it failed, as a fragment.
    pub why: String,
}

impl Cache {
    /// Whether the plugin failed for `host` so short ago that it is not asked again.
    pub fn failure(&self, fingerprint: &Fingerprint, host: &RegistryHost) -> Option<KnownFailure> {
        let content = self.content(&name(fingerprint, host))?;
        let (written, until) = times(&content, MAGIC)?;
        let holds = written <= self.now && self.now < until && until - written <= MOST;
        let why = content.get(HEADER_BYTES..)?;
        let why = str::from_utf8(&why[..why.len().min(MAX_WHY_BYTES)]).ok()?;
        holds.then(|| KnownFailure { left: until - self.now, why: why.to_owned() })
    }

    /// Remembers that the plugin gave no answer about `host`, and whether it hung.
    pub fn remember_failure(
        &mut self,
        fingerprint: &Fingerprint,
        host: &RegistryHost,
        why: &str,
        hung: bool,
    ) {
        let name = name(fingerprint, host);
        let before = self.content(&name).filter(|text| self.is_known_failure(text));
        let before = before.and_then(|text| times(&text, MAGIC));
        let lasts = match (hung, before) {
            (false, _) => BRIEF,
            (true, None) => FIRST,
            (true, Some((written, until))) => (2 * (until - written)).clamp(FIRST, MOST),
        };
        let end = why.floor_char_boundary(MAX_WHY_BYTES);
        self.put(&name, (MAGIC, lasts), &why.as_bytes()[..end]);
    }

    /// Forgets that the plugin ever failed for `host`.
    pub fn forget_failure(&self, fingerprint: &Fingerprint, host: &RegistryHost) {
        let _ = unlinkat(&self.directory, name(fingerprint, host), AtFlags::empty());
    }

    /// Whether a file is about a failure from which the next one's time is reckoned.
    pub(super) fn is_known_failure(&self, content: &[u8]) -> bool {
        times(content, MAGIC).is_some_and(|(written, until)| {
            let lasts = until - written;
            lasts <= MOST && written <= self.now && self.now < until + lasts
        })
    }
}

fn name(fingerprint: &Fingerprint, host: &RegistryHost) -> String {
    fingerprint.name(&format!("failed {host}"))
}
