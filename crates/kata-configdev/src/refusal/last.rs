//! The last refusal of each sandbox, for `doctor` and the node agent.
//!
//! Each refusal is a process of its own that ends. So it leaves a file below
//! `RUN-ROOT/kata-configdev/refusals`: the name is the sandbox's id, the first line the kind of
//! cause, the second one what stood on standard error, which has no secret. Nothing here fails a
//! sandbox or is told.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use foreign_text::bounded::read_in;
use foreign_text::one_line;
use rustix::fs::{AtFlags, Dir, statat, unlinkat};

use super::Refusal;
use crate::image_file::{self, Keep};
use crate::run_directory::open_below;
use crate::sandbox_id::SandboxId;

/// The directory of the files.
pub(crate) const NAME: &str = "refusals";

/// The most files: what a node that refuses without end may take of its memory.
const MAX_FILES: usize = 256;

/// The longest line that is kept, and the longest file that is read. Free to change.
const MAX_LINE_CHARS: usize = 4096;
const MAX_FILE_BYTES: usize = 64 << 10;

/// How long a refusal is kept. Free to change.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a refusal counts as recent: the agent looks at least every five minutes, and a
/// collector every minute or two. Free to change.
const RECENT: Duration = Duration::from_secs(15 * 60);

/// The kinds of causes.
pub const CAUSES: [&str; 7] = ["settings", "qemu", "pod", "document", "machine", "node", "bug"];

/// Leaves the refusal of a sandbox; the oldest ones go where there are too many.
pub fn put(run_root: &Path, sandbox: Option<&str>, refusal: &Refusal) {
    let Some(sandbox) = sandbox.and_then(|id| SandboxId::parse(id).ok()) else {
        return;
    };
    let Some(directory) = open_below(run_root, NAME, true) else {
        return;
    };
    let text = format!("{}\n{}\n", refusal.cause, one_line(&refusal.line).up_to(MAX_LINE_CHARS));
    let name = sandbox.as_str();
    if image_file::replace(&directory, name.as_ref(), text.as_bytes(), Keep::UntilReboot).is_err() {
        // An older refusal is not the last one.
        let _ = unlinkat(&directory, name, AtFlags::empty());
    }
    // After writing: of several at once the last one sees what all wrote.
    let mut files = files(&directory).unwrap_or_default();
    files.sort_by_key(|file| file.written);
    for file in &files[..files.len().saturating_sub(MAX_FILES)] {
        let _ = unlinkat(&directory, file.name.as_str(), AtFlags::empty());
    }
}

/// The line of the last refusal of a sandbox, for as long as it is kept.
#[must_use]
pub fn line(run_root: &Path, sandbox: &SandboxId) -> Option<String> {
    let directory = open_below(run_root, NAME, false)?;
    let files = files(&directory).ok()?;
    let file = files.iter().find(|file| file.name == sandbox.as_str())?;
    let (_, line) = read(&directory, &file.name).filter(|_| file.is_younger(KEPT_FOR))?;
    Some(line)
}

/// How many sandboxes were refused a short time ago, by cause; 0 for a cause of none.
#[must_use]
pub fn recent(run_root: &Path) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::from(CAUSES.map(|cause| (cause, 0)));
    let Some(directory) = open_below(run_root, NAME, false) else {
        return counts;
    };
    for file in files(&directory).unwrap_or_default() {
        let cause = file.is_younger(RECENT).then(|| read(&directory, &file.name)).flatten();
        let known = cause.and_then(|(cause, _)| CAUSES.into_iter().find(|known| *known == cause));
        if let Some(cause) = known {
            *counts.entry(cause).or_default() += 1;
        }
    }
    counts
}

/// Removes the refusals that are at least so old.
pub fn forget(run_root: &Path, min_age: Duration) {
    let Some(directory) = open_below(run_root, NAME, false) else {
        return;
    };
    for file in files(&directory).unwrap_or_default() {
        if !file.is_younger(min_age) {
            let _ = unlinkat(&directory, file.name.as_str(), AtFlags::empty());
        }
    }
}

/// The cause and the line of a file.
fn read(directory: &OwnedFd, name: &str) -> Option<(String, String)> {
    let text = read_in(directory, name, MAX_FILE_BYTES).ok()?;
    let (cause, line) = str::from_utf8(&text).ok()?.split_once('\n')?;
    Some((cause.to_owned(), one_line(line).to_string()))
}

struct Entry {
    name: String,
    written: SystemTime,
}

impl Entry {
    /// Whether it was written so short a time ago, or the clock was set back since.
    fn is_younger(&self, age: Duration) -> bool {
        self.written.elapsed().is_ok_and(|old| old < age) || self.written.elapsed().is_err()
    }
}

/// The files, those of killed processes included.
fn files(directory: &OwnedFd) -> io::Result<Vec<Entry>> {
    let mut files = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if matches!(name, "." | "..") {
            continue;
        }
        let Ok(found) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let seconds = u64::try_from(found.st_mtime).unwrap_or_default();
        let nanos = u32::try_from(found.st_mtime_nsec).unwrap_or_default();
        let written = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        files.push(Entry { name: name.to_owned(), written });
        if files.len() > 2 * MAX_FILES {
            break;
        }
    }
    Ok(files)
}
