//! A secret as the kubelet mounts it.
//!
//! The kubelet puts a secret's keys into a new directory, and exchanges the symbolic link `..data`,
//! which the keys' own links lead through: opening a key once gives one version of it, never a
//! mixture. The mount is the kubelet's, so that links are followed.

use std::fs::{File, read_dir};
use std::io::{self, Read};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use zeroize::Zeroizing;

/// How many other keys are named in a message.
const MAX_NAMED_KEYS: usize = 8;

/// How often a key is looked up that has a name but leads nowhere, and how long between: the
/// kubelet exchanges `..data` in an instant.
const LOOKUPS: u32 = 10;
const LOOKUP_PAUSE: Duration = Duration::from_millis(10);

/// What is mounted.
pub(crate) enum Secret {
    /// No secret, or it has no such key; with the names of the keys that it does have.
    Absent { others: Vec<String> },
    /// What the key holds, not yet parsed.
    Present(Zeroizing<Vec<u8>>),
}

impl Secret {
    /// Reads the key `key` of the secret at `directory`, of at most `limit` bytes.
    pub(crate) fn read(directory: &Path, key: &str, limit: usize) -> io::Result<Self> {
        Ok(match read_file(&directory.join(key), limit)? {
            Some(text) => Self::Present(text),
            None => Self::Absent {
                others: other_keys(directory),
            },
        })
    }
}

/// Reads a file of at most `limit` bytes; `None` if it is not there.
pub(crate) fn read_file(path: &Path, limit: usize) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    // A FIFO must not hang the reader; on regular files O_NONBLOCK has no effect.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = look_up(path, || Ok(open(path, flags, Mode::empty())?.into()))?;
    opened.map(|file| read_bounded(file, limit)).transpose()
}

/// Opens the key at `path`, with a fresh lookup as long as there is a key that leads nowhere;
/// `None` if there is none.
fn look_up(path: &Path, mut open: impl FnMut() -> io::Result<File>) -> io::Result<Option<File>> {
    for attempt in 1..=LOOKUPS {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened.map(Some),
        }
        // The old version may have been deleted while this lookup was on its way through it. Only
        // the key's own link says whether there is a key: the kubelet keeps it as long as there is.
        if attempt == LOOKUPS || path.symlink_metadata().is_err() {
            break;
        }
        sleep(LOOKUP_PAUSE);
    }
    Ok(None)
}

fn read_bounded(file: File, limit: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // One byte more than allowed, reserved at once: a vector that grows leaves copies in freed
    // memory.
    let most = limit + 1;
    let size =
        usize::try_from(metadata.len()).map_or(most, |size| most.min(size.saturating_add(1)));
    let mut text = Zeroizing::new(Vec::with_capacity(size));
    file.take(most as u64).read_to_end(&mut text)?;
    if text.len() == most {
        let rule = format!("it has more than {limit} bytes");
        return Err(io::Error::other(rule));
    }
    Ok(text)
}

/// The keys in the directory `secret`; none where it cannot be read, because they only serve a
/// message.
fn other_keys(secret: &Path) -> Vec<String> {
    let Ok(entries) = read_dir(secret) else {
        return Vec::new();
    };
    let mut keys: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with(".."))
        .take(MAX_NAMED_KEYS)
        .collect();
    keys.sort();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;

    #[test]
    fn an_exchange_is_no_absence() {
        let secret = tempfile::tempdir().unwrap();
        let key = secret.path().join("key");
        symlink("..data/key", &key).unwrap();
        // What a lookup gets that was on its way through the old version: the next one goes through
        // the new one.
        let mut exchanges = 2;
        let opened = look_up(&key, || {
            if exchanges > 0 {
                exchanges -= 1;
                return Err(io::ErrorKind::NotFound.into());
            }
            File::open("/dev/null")
        });
        assert!(opened.unwrap().is_some());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_absent_in_the_end() {
        let secret = tempfile::tempdir().unwrap();
        symlink("..data/key", secret.path().join("key")).unwrap();
        let read = Secret::read(secret.path(), "key", 9).unwrap();
        assert!(matches!(read, Secret::Absent { .. }));
    }
}
