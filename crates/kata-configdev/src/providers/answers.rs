//! What plugins answered for earlier sandboxes, and which gave no answer, in one file in memory.
//!
//! Why a file: every sandbox is started by a process of its own, so memory would keep nothing. Why
//! at all: a hundred pods that start at once would ask a cloud's token service a hundred times,
//! which it may refuse, and each of them would wait.
//!
//! In memory means: the kernel may swap a tmpfs out, as it may this process.
//!
//! The file is [`FILE`] in `RUN-ROOT/kata-configdev/credential-providers`, mode 0600 in 0700, and
//! only used where that is a tmpfs or ramfs: on no disk. It is replaced as a whole by whoever has
//! the directory's lock. Each answer holds as long as its plugin said, by a clock that cannot be
//! set. A file that somebody else may write, or that is not as it is written here, counts as none.
//! No function here fails.
//!
//! A plugin that hangs, because its cloud's metadata service is down, costs the first sandbox the
//! whole deadline, and those that start soon after it nothing. Soon means: half a minute, and twice
//! as long each time that it hangs again. A plugin that fails at once costs little time, so it is
//! spared for a few seconds only: for a burst of pods that start together.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use credential_sources::kubelet::answer::has_pair_for;
use credential_sources::kubelet::protocol::{CacheKeyType, Response};
use credential_sources::kubelet::run::Failure;
use linux_sys::{lock, replace};
use registry_config::RegistryHost;
use rustix::fs::{FsWord, Mode, OFlags, fstatfs, openat};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::contribution::NotKept;
use crate::host_file::HostFile;
use crate::run_directory::open_below;

/// The directory of the file, and the file.
const NAME: &str = "credential-providers";
const FILE: &str = "answers.json";

/// The longest that an answer is kept, whatever its plugin says: the longest-lived tokens of clouds
/// live so long. Free to change.
const MAX_KEPT: Duration = Duration::from_secs(12 * 60 * 60);

/// How long a plugin is not asked again that hung for the first time.
const FIRST: Duration = Duration::from_secs(30);

/// How long at most: where its service is back, sandboxes have its passwords after this time.
const MOST: Duration = Duration::from_secs(4 * 60);

/// How long one is not asked again that failed by itself.
const BRIEF: Duration = Duration::from_secs(5);

/// The most rows, and the longest file. More are only there if something is wrong; then nothing is
/// added.
const MAX_ROWS: usize = 1024;
const MAX_FILE_BYTES: usize = 1 << 20;

/// How long another process is waited for that writes the file.
const LOCKED_WITHIN: Duration = Duration::from_secs(1);

/// `statfs(2)`.
const TMPFS: FsWord = 0x0102_1994;
const RAMFS: FsWord = 0x8584_58f6;

/// The file, as it was at one moment.
pub struct Answers {
    directory: OwnedFd,
    rows: BTreeMap<String, Row>,
    now: Duration,
}

/// What is known of one question. Times are since the start of the machine.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The answer, or why there was none.
    said: Result<Response, String>,
    written: Duration,
    /// When the answer expires, or the plugin is asked again.
    until: Duration,
}

impl Row {
    fn holds(&self, now: Duration) -> bool {
        let longest = if self.said.is_ok() { MAX_KEPT } else { MOST };
        self.written <= now && now < self.until && self.lasts() <= longest
    }

    fn lasts(&self) -> Duration {
        self.until.saturating_sub(self.written)
    }

    /// Whether it holds, or is a failure from which the next one's time is reckoned.
    fn counts(&self, now: Duration) -> bool {
        let further = if self.said.is_ok() { Duration::ZERO } else { self.lasts() };
        now < self.until.saturating_add(further)
    }
}

impl Answers {
    /// What is kept below `run_root`, whose directory is made where it is missing and `make` says
    /// so; `None` where nothing can be kept.
    pub fn open(run_root: &Path, make: bool) -> Option<Self> {
        Self::open_at(run_root, since_boot(), make)
    }

    fn open_at(run_root: &Path, now: Duration, make: bool) -> Option<Self> {
        let directory = open_below(run_root, NAME, make)?;
        let kind = fstatfs(&directory).ok()?.f_type;
        if kind != TMPFS && kind != RAMFS {
            return None;
        }
        let rows = read(&directory).unwrap_or_default();
        Some(Self { directory, rows, now })
    }

    /// The same with the lock, which ends with it, and with what the file says now, without what
    /// nobody needs any more.
    pub fn locked(mut self) -> Option<Self> {
        let is_locked = lock::exclusive(&self.directory, LOCKED_WITHIN).unwrap_or(false);
        self.rows = read(&self.directory).unwrap_or_default();
        self.rows.retain(|_, row| row.counts(self.now));
        is_locked.then_some(self)
    }

    /// What the plugin last answered about `host`, or about everything, where that still holds, and
    /// how long it does.
    pub fn answer(&self, plugin: &str, host: &RegistryHost) -> Option<(Response, Duration)> {
        [CacheKeyType::Registry, CacheKeyType::Global].into_iter().find_map(|kind| {
            let row = self.row(&key(plugin, kind, host)?)?;
            let response = row.said.as_ref().ok()?;
            // What a plugin said about everything when it was asked about another registry need
            // not be all that it knows.
            let holds = kind == CacheKeyType::Registry || has_pair_for(host, response);
            holds.then(|| (response.clone(), row.until - self.now))
        })
    }

    /// Why the plugin gave no answer about `host`, so short ago that it is not asked again, and
    /// until when.
    pub fn failure(&self, plugin: &str, host: &RegistryHost) -> Option<(&str, Duration)> {
        let row = self.row(&failed(plugin, host))?;
        Some((row.said.as_ref().err()?, row.until - self.now))
    }

    fn row(&self, key: &str) -> Option<&Row> {
        self.rows.get(key).filter(|row| row.holds(self.now))
    }

    /// Notes an answer about `host`, which is kept for so long, if at all. It ends what is known of
    /// a failure.
    pub fn keep(
        &mut self,
        plugin: &str,
        host: &RegistryHost,
        response: &Response,
        lasts: Option<Duration>,
    ) {
        self.rows.remove(&failed(plugin, host));
        if let (Some(lasts), Some(key)) = (lasts, key(plugin, response.cache_key_type, host)) {
            self.put(key, Ok(response.clone()), lasts);
        }
    }

    /// Notes that the plugin gave no answer about `host`.
    pub fn fail(&mut self, plugin: &str, host: &RegistryHost, failure: &Failure) {
        let key = failed(plugin, host);
        let lasts = match self.rows.get(&key) {
            _ if !failure.hung => BRIEF,
            Some(before) => (2 * before.lasts().min(MOST)).clamp(FIRST, MOST),
            None => FIRST,
        };
        self.put(key, Err(failure.why.clone()), lasts);
    }

    fn put(&mut self, key: String, said: Result<Response, String>, lasts: Duration) {
        self.rows.insert(key, Row { said, written: self.now, until: self.now + lasts });
    }

    /// Writes the file, for who has the lock; says whether it is there now.
    pub fn write(&self) -> bool {
        if self.rows.is_empty() {
            return self.discard();
        }
        let mut text = Zeroizing::new(vec![0; MAX_FILE_BYTES]);
        let mut rest = text.as_mut_slice();
        let fits =
            self.rows.len() <= MAX_ROWS && serde_json::to_writer(&mut rest, &self.rows).is_ok();
        let length = MAX_FILE_BYTES - rest.len();
        fits && replace::replace(&self.directory, FILE, &text[..length], 0o600, None).is_ok()
    }

    /// Removes the file; says whether it is gone.
    pub fn discard(&self) -> bool {
        replace::discard(&self.directory, FILE).is_ok()
    }
}

/// How long an answer is kept: as long as it says, else `default`.
///
/// # Errors
///
/// Why it is not kept.
pub fn kept_for(response: &Response, default: Duration) -> Result<Duration, NotKept> {
    let lasts = response.cache_duration.unwrap_or(default).min(MAX_KEPT);
    match response.cache_key_type {
        CacheKeyType::Image => Err(NotKept::ForAnImage),
        _ if lasts.is_zero() => Err(NotKept::NoTime),
        _ => Ok(lasts),
    }
}

fn read(directory: &OwnedFd) -> Option<BTreeMap<String, Row>> {
    let flags = HostFile::FLAGS | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(directory, FILE, flags, Mode::empty()).ok()?;
    let file = HostFile::regular(file.into()).and_then(HostFile::require_administered).ok()?;
    serde_json::from_slice(&file.read(MAX_FILE_BYTES).ok()?).ok()
}

/// The row of an answer. Those about single images have none.
fn key(plugin: &str, kind: CacheKeyType, host: &RegistryHost) -> Option<String> {
    match kind {
        CacheKeyType::Image => None,
        CacheKeyType::Registry => Some(format!("{plugin} {host}")),
        CacheKeyType::Global => Some(plugin.to_owned()),
    }
}

fn failed(plugin: &str, host: &RegistryHost) -> String {
    format!("{plugin} {host} failed")
}

/// The time since the machine was started, suspension included. A file system in memory lives no
/// longer.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
