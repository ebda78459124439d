//! Answers that plugins let us keep, in files on a file system in memory.
//!
//! Why files: every sandbox is started by a process of its own, so memory would keep nothing, and a
//! service for this alone would have to be installed, watched and secured. Why at all: a hundred
//! pods that start at once would ask a cloud's token service a hundred times, which it may refuse,
//! and each of them would wait.
//!
//! In memory means: the kernel may swap a tmpfs out, as it may this process.
//!
//! Everything is below `RUN-ROOT/kata-configdev/credential-providers`, mode 0700, and only used
//! where that is a tmpfs or ramfs: on no disk. Each answer is a file of mode 0600 that appears as a
//! whole or not at all. It holds as long as its plugin said, by a clock that cannot be set. It is
//! trusted as little as a plugin: it is parsed again, and can offer a user and a password only. A
//! file with anything else counts as none. No function here fails.
//!
//! Beside the answers lies for a short time who gave none ([`failures`]).

mod failures;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use credential_sources::kubelet::answer::has_pair_for;
use credential_sources::kubelet::protocol::{CacheKeyType, MAX_MESSAGE_BYTES, Response, Version};
use credential_sources::kubelet::run::Answer;
use linux_sys::rooted::Root;
use registry_config::RegistryHost;
use rustix::fs::{AtFlags, Dir, FsWord, Mode, OFlags, fstatfs, openat, unlinkat};
use rustix::time::{ClockId, clock_gettime};
use zeroize::Zeroizing;

use super::contribution::NotKept;
use super::fingerprint::Fingerprint;
use crate::host_file::HostFile;
use crate::image_file::{self, Keep, TEMPORARY_PREFIX};
use crate::run_directory::open_below;

/// The directory of the answers.
const NAME: &str = "credential-providers";

/// The longest that an answer is kept, whatever its plugin says: the longest-lived tokens of clouds
/// live so long. Free to change.
const MAX_KEPT: Duration = Duration::from_secs(12 * 60 * 60);

/// The most files in the directory. More are only there if something is wrong; then nothing is
/// added.
const MAX_FILES: usize = 1024;

/// How old a temporary file is before it can only be that of a killed process.
const TEMPORARY_FOR: Duration = Duration::from_secs(60);

/// The first bytes of a file; another layout has others.
const MAGIC: [u8; 8] = *b"kcdcred1";

/// [`MAGIC`], when it was written and when it expires, each as nanoseconds since the start of the
/// machine, little endian.
const HEADER_BYTES: usize = 24;

/// `statfs(2)`.
const TMPFS: FsWord = 0x0102_1994;
const RAMFS: FsWord = 0x8584_58f6;

/// An answer from the cache.
pub struct KeptAnswer {
    pub response: Response,
    /// How long it still holds.
    pub left: Duration,
}

/// The directory held open, at one moment.
pub struct Cache {
    directory: OwnedFd,
    root: Root,
    now: Duration,
    /// How many files there are, once that was looked at.
    files: Option<usize>,
}

impl Cache {
    /// The cache below `run_root`, made where it is missing; `None` where it cannot be had.
    pub fn open(run_root: &Path) -> Option<Self> {
        Self::open_at(run_root, since_boot(), true)
    }

    /// The cache below `run_root`, where there is one.
    pub fn existing(run_root: &Path) -> Option<Self> {
        Self::open_at(run_root, since_boot(), false)
    }

    fn open_at(run_root: &Path, now: Duration, make: bool) -> Option<Self> {
        let directory = open_below(run_root, NAME, make)?;
        let kind = fstatfs(&directory).ok()?.f_type;
        if kind != TMPFS && kind != RAMFS {
            return None;
        }
        // The very directory that was looked at, whatever its path means by now.
        let root = Root::open(format!("/proc/self/fd/{}", directory.as_raw_fd())).ok()?;
        Some(Self { directory, root, now, files: None })
    }

    /// What the plugin last answered about `host`, or about everything, where that still holds.
    pub fn find(
        &self,
        fingerprint: &Fingerprint,
        host: &RegistryHost,
        version: Version,
    ) -> Option<KeptAnswer> {
        [CacheKeyType::Registry, CacheKeyType::Global].into_iter().find_map(|kind| {
            let name = fingerprint.name(&key(kind, host)?);
            let (text, left) = self.read_or_remove(&name)?;
            let response = Response::parse(&text, version).ok()?;
            let holds = response.cache_key_type == kind
                    // What a plugin said about everything when it was asked about another registry
                    // need not be all that it knows.
                    && (kind == CacheKeyType::Registry || has_pair_for(host, &response));
            holds.then_some(KeptAnswer { response, left })
        })
    }

    /// Keeps `text` under a name for so long, unless the directory is full; says whether it is
    /// there now.
    fn put(&mut self, name: &str, (magic, lasts): ([u8; 8], Duration), text: &[u8]) -> bool {
        if self.tidy().is_none_or(|files| files >= MAX_FILES) {
            return false;
        }
        let mut content = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + text.len()));
        content.extend_from_slice(&magic);
        for moment in [self.now, self.now + lasts] {
            content.extend_from_slice(&nanos(moment).to_le_bytes());
        }
        content.extend_from_slice(text);
        image_file::replace(&self.directory, name.as_ref(), &content, Keep::UntilReboot).is_ok()
    }

    /// The answer in a file and for how long it holds; removes one that holds no longer.
    fn read_or_remove(&self, name: &str) -> Option<(Zeroizing<Vec<u8>>, Duration)> {
        let content = self.content(name)?;
        let answer = self.answer(&content);
        if answer.is_none() {
            // One that another process has put there just now is asked for again.
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
        answer
    }

    fn answer(&self, content: &[u8]) -> Option<(Zeroizing<Vec<u8>>, Duration)> {
        let left = self.left(content)?;
        Some((Zeroizing::new(content[HEADER_BYTES..].to_vec()), left))
    }

    fn content(&self, name: &str) -> Option<Zeroizing<Vec<u8>>> {
        let file = HostFile::open_beneath(&self.root, name.as_ref()).ok()?;
        file.require_administered()
            .and_then(|file| file.read(HEADER_BYTES + MAX_MESSAGE_BYTES))
            .ok()
    }

    fn left(&self, content: &[u8]) -> Option<Duration> {
        let (written, expires) = times(content, MAGIC)?;
        let holds = written <= self.now && self.now < expires && expires - written <= MAX_KEPT;
        holds.then(|| expires - self.now)
    }

    /// Removes what has expired and what killed processes left; says how many files are left. Once
    /// per sandbox is enough.
    pub fn tidy(&mut self) -> Option<usize> {
        if self.files.is_some() {
            return self.files;
        }
        let names = self.names().ok()?;
        let count = names.len();
        let stale: Vec<_> = names.iter().filter(|name| self.is_stale(name)).collect();
        let removed = stale
            .into_iter()
            .filter(|name| unlinkat(&self.directory, name.as_str(), AtFlags::empty()).is_ok())
            .count();
        self.files = Some(count - removed);
        self.files
    }

    /// Removes everything.
    pub fn empty(&self) {
        for name in self.names().unwrap_or_default() {
            let _ = unlinkat(&self.directory, name.as_str(), AtFlags::empty());
        }
    }

    fn is_stale(&self, name: &str) -> bool {
        if name.starts_with(TEMPORARY_PREFIX) {
            let written = openat(
                &self.directory,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .map_err(io::Error::from)
            .and_then(|file| std::fs::File::from(file).metadata()?.modified());
            return written
                .is_ok_and(|written| written.elapsed().is_ok_and(|age| age > TEMPORARY_FOR));
        }
        let content = self.content(name);
        content
            .is_none_or(|content| !self.is_known_failure(&content) && self.left(&content).is_none())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            // Names of ours are text, and directories are not ours.
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
            if names.len() > 2 * MAX_FILES {
                break;
            }
        }
        Ok(names)
    }
}

/// Keeps an answer about `host` as long as it says, else `default`. Where it cannot be kept the
/// next sandbox asks again.
///
/// # Errors
///
/// Why it is not kept.
pub fn keep(
    cache: Option<&mut Cache>,
    fingerprint: &Fingerprint,
    host: &RegistryHost,
    answer: &Answer,
    default: Duration,
) -> Result<Duration, NotKept> {
    let Answer { text, response } = answer;
    let key = key(response.cache_key_type, host).ok_or(NotKept::ForAnImage)?;
    let kept_for = response.cache_duration.unwrap_or(default).min(MAX_KEPT);
    if kept_for.is_zero() {
        return Err(NotKept::NoTime);
    }
    let cache = cache.ok_or(NotKept::NoPlace)?;
    let name = fingerprint.name(&key);
    let is_there = cache.put(&name, (MAGIC, kept_for), text);
    is_there.then_some(kept_for).ok_or(NotKept::NoPlace)
}

/// Under which key an answer is kept. Those about single images are not.
fn key(kind: CacheKeyType, host: &RegistryHost) -> Option<String> {
    match kind {
        CacheKeyType::Image => None,
        CacheKeyType::Registry => Some(format!("registry {host}")),
        CacheKeyType::Global => Some("global".into()),
    }
}

/// When a file with this magic was written, and when it expires, since the start of the machine.
fn times(content: &[u8], magic: [u8; 8]) -> Option<(Duration, Duration)> {
    let number = |from: usize| -> Option<Duration> {
        let bytes = content.get(from..from + 8)?;
        Some(Duration::from_nanos(u64::from_le_bytes(bytes.try_into().ok()?)))
    };
    let (written, expires) = (number(8)?, number(16)?);
    (content.starts_with(&magic) && written <= expires).then_some((written, expires))
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
